-- Decides about one limit: one call for one demand, or for lists of demands.
--
-- KEYS: the key of the limit; for `batch` one for each list, all of one limit.
-- ARGV: what is asked, the time or nothing (see time.lua), the cost; then the letter of the kind and the arguments of the
-- limit; last, for `book` the longest wait, or nothing, for `borrow` the most, for `undo` the moment. For `batch` see
-- list.lua; for several limits at once see many.lua.
--
-- | asked  | does                                            | answers                                       |
-- |--------|-------------------------------------------------|-----------------------------------------------|
-- | peek   | nothing                                         | 1, what is left, when there is more, when it  |
-- |        |                                                 | is full, and the moment                       |
-- |        |                                                 | 0, why it refuses, when it would grant, what  |
-- |        |                                                 | is left, when it is full                      |
-- | batch  | takes for each demand of the lists, in order    | the same for each, after it                   |
-- | up_to  | takes as much as there is, at most the cost     | what was taken, what is left, when it is full |
-- |        |                                                 | and the moment                                |
-- | borrow | takes half of what is left, at least the cost   | the same, after it; last, what was taken      |
-- |        | and at most the most                            |                                               |
-- | charge | takes the cost after the fact: buckets owe it,  | nothing                                       |
-- |        | others are used up                              |                                               |
-- | undo   | gives back the cost, as far as it still counts, | nothing                                       |
-- |        | that was taken at the moment                    |                                               |
-- | book   | takes the cost from a bucket ahead of time      | 1, when it may be used; or 0 and so on        |
-- | add    | makes so much more available                    | nothing                                       |
-- | begin  | writes down a limit that nobody has used        | nothing                                       |
-- | look   | nothing                                         | what is left, what is in use, when it is full |
--
-- When is a span in nanoseconds, a number below 2^53 and text above, and empty if nobody knows. A refusal writes
-- nothing, unless refusals count, a lease has run out, the bucket is new and not full, or the clock has stepped far back.
-- The moment of a grant is that at which it was recorded, by which it can be undone. Where a state was started anew because
-- it was written by a clock that is far ahead, the answer ends with `stepped`.

local asked = ARGV[1]

-- The limit of this kind at a key; its arguments come next.
local function limit_at(key, cost)
  local kind = kinds[word()]
  local rule = kind.rule()
  return { key = key, cost = cost, kind = kind, rule = rule, state = kind.load(rule, key) }
end

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
  if limit.cost > limit.rule.limit then return 'too_large', false end
  -- Nothing fits where one would.
  local span, reason = limit.kind.wait(limit.rule, limit.state, math.max(1, limit.cost))
  if span == nil then return nil end
  return reason or 'exhausted', span
end

-- The span of a refusal that is itself counted where refusals count.
local function noted(limit, reason, span)
  if reason ~= 'too_large' and limit.kind.refused then
    return limit.kind.refused(limit.rule, limit.state, limit.cost, span)
  end
  return span
end

-- Takes after the fact, and says how much.
local function charge(limit)
  local part = limit.cost
  if not limit.kind.owes then part = math.min(part, limit.kind.available(limit.rule, limit.state)) end
  if part > 0 then change(limit, 'take', part) end
  return part
end

-- What is borrowed where at most `longest` may be. The other half of what is left is for others, so batches get smaller as
-- the limit is used up.
local function batch_of(limit, longest)
  local half = math.floor(limit.kind.available(limit.rule, limit.state) / 2)
  local batch = math.max(limit.cost, math.min(longest, half))
  if limit.kind.wait(limit.rule, limit.state, batch) == nil then return batch end
  return limit.cost
end

local function refused(limit, reason, span)
  return { 0, reason, span_text(span), room(limit) }
end

local function granted(limit)
  local left, full = room(limit)
  local more = ''
  if left < limit.rule.limit then
    more = span_text(limit.kind.wait(limit.rule, limit.state, left + 1))
  else
    full = ''
  end
  return { 1, left, more, full, text_of_moment(limit.state.recorded or now) }
end

-- Decides, and takes in memory if `takes` says so. What is to be saved is marked.
local function decide(limit, takes)
  local reason, span = refusal(limit)
  local answer
  if reason then
    span = noted(limit, reason, span)
    answer = refused(limit, reason, span)
  else
    if takes and limit.cost > 0 then
      change(limit, 'take', limit.cost)
      limit.changed = true
    end
    answer = granted(limit)
  end
  limit.changed = limit.changed or limit.state.unsaved
  return answer
end

local function told(answer)
  if stepped then answer[#answer + 1] = 'stepped' end
  return answer
end

-- What is wrong with one key only: its demands fail, and no others.
local function is_of_key(problem)
  for _, text in ipairs({ 'WRONGTYPE', 'BADSTATE', 'not a valid float' }) do
    if string.find(problem, text, 1, true) then return true end
  end
  return false
end

