-- Decides: one call for one or several limits, all or none, or for a list of demands on one limit.
--
-- KEYS: one for each limit, all with the same hash tag; for `batch` one for each list, all of one limit.
-- ARGV: what is asked, the time or nothing (see time.lua), the amount; then for each limit the letter of its kind and
-- its own arguments; last, for `book` the longest wait, or nothing, for `borrow` the most, for `undo` the moment. For
-- `batch` see list.lua.
--
-- | asked  | does                                            | answers                                       |
-- |--------|-------------------------------------------------|-----------------------------------------------|
-- | take   | takes the amount from all, or from none         | 1, and of each what is left, when there is    |
-- |        |                                                 | more and when it is full                      |
-- |        |                                                 | 0, the number of the limit that refused, why, |
-- |        |                                                 | when all would grant, what is left, when full |
-- | batch  | takes for each demand of the lists, in order    | what take would answer to each                |
-- | peek   | nothing                                         | what take would answer                        |
-- | up_to  | takes as much as there is, at most the amount   | what was taken, what is left, when it is full |
-- |        |                                                 | and the moment                                |
-- | borrow | takes half of what is left, at least the amount | what take would answer; last, what was taken  |
-- |        | and at most the most                            |                                               |
-- | charge | takes the amount after the fact: buckets owe    | nothing                                       |
-- |        | it, others are used up                          |                                               |
-- | undo   | gives back the amount, as far as it still       | nothing                                       |
-- |        | counts, that was taken at the moment            |                                               |
-- | book   | takes the amount of a bucket ahead of time      | 1, when it may be used; or as take            |
-- | add    | makes so much more available                    | nothing                                       |
-- | begin  | writes down a limit that nobody has used        | nothing                                       |
-- | look   | nothing                                         | what is left, what is in use, when it is full |
--
-- When is a span in nanoseconds, a number below 2^53 and text above, and empty if nobody knows. A refusal writes
-- nothing, unless refusals count, a lease has run out, the bucket is new and not full, or the clock has stepped far back.
-- A grant ends with the moment at which it was recorded, by which it can be undone. Where a state was started anew because
-- it was written by a clock that is far ahead, the answer ends with `stepped`.

local asked, amount = ARGV[1], number_of(ARGV[3])

local limits = {}

-- What is done to a state is done to the entries of other terms beside it.
local function change(limit, what, ...)
  limit.kind[what](limit.rule, limit.state, ...)
  for _, other in ipairs(limit.state.others or {}) do
    local also = what == 'take' and limit.kind.charged or limit.kind[what]
    also(other.rule, other.state, ...)
  end
end

local function save(limit)
  limit.kind.save(limit.rule, limit.state, limit.key)
end

local function span_text(span)
  if not span then return '' end
  if type(span) == 'number' then return span end
  return text_of(span)
end

local function room(limit)
  return limit.kind.available(limit.rule, limit.state), span_text(limit.kind.full(limit.rule, limit.state))
end

-- Why a limit refuses, or nil, and the span after which it would grant, or false.
local function refusal(limit)
  if amount > limit.rule.limit then return 'too_large', false end
  -- Nothing fits where one would.
  local span, reason = limit.kind.wait(limit.rule, limit.state, math.max(1, amount))
  if span == nil then return nil end
  return reason or 'exhausted', span
end

-- The same, with the refusal itself counted where it counts.
local function charged(limit, reason, span)
  if reason ~= 'too_large' and limit.kind.refused then
    return limit.kind.refused(limit.rule, limit.state, amount, span)
  end
  return span
end

-- The moment of a grant: that of a lease, which is its number, or else that of the first limit.
local function recorded()
  local moment = limits[1].state.recorded or now
  for _, limit in ipairs(limits) do
    local state = limit.state
    if state.fence and since(state.recorded, moment) ~= 0 then moment = state.recorded end
  end
  return moment
end

-- Decides, and takes in memory if `takes` says so. What is to be saved is marked.
local function decide(takes)
  for i, limit in ipairs(limits) do
    local reason, span = refusal(limit)
    if reason then
      span = charged(limit, reason, span)
      local left, full = room(limit)
      for j = i + 1, #limits do
        local other_reason, other = refusal(limits[j])
        -- A limit that was not reached has not refused, so it charges nothing.
        if other_reason then span = span and other and most(span, other) end
      end
      for j = 1, i do limits[j].changed = limits[j].changed or limits[j].state.unsaved end
      return { 0, i, reason, span_text(span), left, full }
    end
  end
  local answer = { 1 }
  for _, limit in ipairs(limits) do
    if takes and amount > 0 then change(limit, 'take', amount) end
    limit.changed = limit.changed or (takes and amount > 0) or limit.state.unsaved
    local left, full = room(limit)
    local more = ''
    if left < limit.rule.limit then
      more = span_text(limit.kind.wait(limit.rule, limit.state, left + 1))
    else
      full = ''
    end
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = left, more, full
  end
  answer[#answer + 1] = text_of_moment(recorded())
  return answer
end

-- Decides and writes: last, because a state may look at what is still there as it was.
local function take()
  local answer = decide(true)
  for _, limit in ipairs(limits) do
    if limit.changed then save(limit) end
  end
  return answer
end

local function told(answer)
  if stepped then answer[#answer + 1] = 'stepped' end
  return answer
end
