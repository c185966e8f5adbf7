
-- Decides about several limits in one call, each with its own key, terms and cost: all or none.
--
-- KEYS: one for each limit, all in one hash slot. ARGV: what is asked, the time or nothing (see time.lua), nothing; then for
-- each limit its cost, its mode, the letter of its kind and its own arguments; for `undo` also what was taken, and the moment.
-- The mode is nothing for a limit that is enforced, the most for one that is also borrowed from, and `s` for a shadow. For
-- `take` there may be several decisions, those that are alike in one run: before the limits of a run come their number, that of
-- their arguments, and that of the decisions. No key is there twice in one decision.
--
-- | asked  | does                                              | answers                                      |
-- |--------|---------------------------------------------------|----------------------------------------------|
-- | take   | for each decision, in order: takes from all that  | for one or several decisions of a run their  |
-- |        | grant, if no limit that is enforced refuses       | number and a list: 1 if they took, or else   |
-- |        |                                                   | 0, and for each limit what `batch` answers,  |
-- |        |                                                   | see decide.lua, to each of them if they took |
-- |        |                                                   | and once if not; where it borrows and        |
-- |        |                                                   | grants, last what was taken. Or 2 and an     |
-- |        |                                                   | error that concerns only its keys            |
-- | peek   | nothing                                           | what one decision would be answered          |
-- | charge | takes after the fact                              | what peek would answer after it              |
-- | undo   | gives back, as far as it still counts             | what peek would answer after it              |
--
-- Every limit is evaluated, also when another one refuses. Of those that refuse, the first that is enforced counts the refusal
-- where refusals count. A shadow never refuses for the others: it is taken from if it would have granted, or else counts the
-- refusal, and both only if the decision is admitted.

local takes = asked == 'take'

-- Decides about the keys from `first` to `last`, whose arguments come next.
local function decide_all(first, last)
  local limits = {}
  for i = first, last do
    local key = KEYS[i]
    local cost, mode = number(), word()
    local limit = limit_at(key, cost)
    limit.shadow, limit.longest, limits[#limits + 1] = mode == 's', tonumber(mode), limit
    local changed = asked == 'charge' and charge(limit) > 0
    if asked == 'undo' then
      local taken, moment = number(), word()
      changed = taken > 0
      if changed then change(limit, 'undo', taken, moment_of(moment)) end
    end
    if changed then
      save(limit)
      -- A state need not know what became of it when it was written.
      limit.state = limit.kind.load(limit.rule, key)
    end
  end

  local refuser
  for _, limit in ipairs(limits) do
    limit.reason, limit.span = refusal(limit)
    if limit.reason and not limit.shadow then refuser = refuser or limit end
  end

  local out = { refuser and 0 or 1 }
  for _, limit in ipairs(limits) do
    local answer
    if limit.reason then
      local counts = refuser == limit or (not refuser and limit.shadow)
      if counts then limit.span = noted(limit, limit.reason, limit.span) end
      answer = refused(limit, limit.reason, limit.span)
    else
      if takes and not refuser and limit.cost > 0 then
        if limit.longest then limit.cost = batch_of(limit, limit.longest) end
        change(limit, 'take', limit.cost)
        limit.changed = true
      end
      answer = granted(limit)
      if limit.longest then answer[#answer + 1] = limit.cost end
    end
    limit.changed = limit.changed or limit.state.unsaved
    for _, part in ipairs(answer) do out[#out + 1] = part end
  end

  -- Last, because a state may look at what is still there as it was.
  if takes then
    for _, limit in ipairs(limits) do
      if limit.changed then save(limit) end
    end
  end
  return out
end

if takes then
  while begins <= #ARGV do
    local last = first + ARGV[begins] - 1
    for _ = answered + 1, ARGV[begins + 2] do
      place = begins + 2
      local well, answer = pcall(decide_all, first, last)
      if not well then
        local text = type(answer) == 'table' and answer.err or answer
        if not is_of_key(text) then error(answer, 0) end
        answer = { 2, text }
      end
      decisions[#decisions + 1] = 1
      decisions[#decisions + 1] = answer
    end
    answered = 0
    begins, first = begins + 3 + ARGV[begins + 1], last + 1
  end
  return told(decisions)
end

local out = decide_all(1, #KEYS)
if asked == 'peek' then return out end
return told(out)
