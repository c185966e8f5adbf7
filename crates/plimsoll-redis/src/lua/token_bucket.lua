-- One or several token buckets that must all grant.
--
-- Arguments: how many; for each: `g` for greedy or `i` for interval, burst, tokens at the beginning, tokens
-- of a refill, its period, origin of the periods.
-- Kept for each: a moment, what was missing from the full bucket at that moment, and its terms. Of a greedy bucket it is the
-- moment of the last change, and the missing is counted in parts: a token is `period` parts, and each nanosecond
-- brings `refill` of them. Of an interval bucket it is the beginning of a period, and the missing is counted in tokens,
-- followed by `@` and the moment of the last change. Other terms: see terms.lua.
-- Expires when all are full; if a new bucket is not full, so much later as an empty one takes to fill.
-- More may be missing than fits the bucket: what was booked ahead of time. Exact for all parameters.

kinds.b = { owes = true }

function kinds.b.rule()
  local rule = { buckets = {} }
  for i = 1, number() do
    local bucket = { greedy = word() == 'g', burst = number(), initial = number() }
    bucket.refill, bucket.period, bucket.origin = number(), number(), moment_of(word())
    bucket.token = bucket.greedy and bucket.period or 1
    bucket.capacity = mul(bucket.burst, bucket.token)
    local terms = { text_of(bucket.burst), text_of(bucket.refill), text_of(bucket.period) }
    bucket.terms = (bucket.greedy and 'g' or 'i') .. table.concat(terms, '/')
    rule.buckets[i] = bucket
    rule.terms = rule.terms and rule.terms .. ',' .. bucket.terms or bucket.terms
    rule.limit = math.min(rule.limit or bucket.burst, bucket.burst)
  end
  return rule
end

function kinds.b.terms_of(words)
  if #words == 0 or #words % 3 ~= 0 then unreadable() end
  local terms = {}
  for i = 3, #words, 3 do terms[#terms + 1] = words[i] end
  return table.concat(terms, ',')
end

function kinds.b.rule_of(_, words)
  local rule = { buckets = {}, limit = 0 }
  for i = 3, #words, 3 do
    local style, burst, refill, period = string.match(words[i], '^([gi])(%w+)/(%w+)/(%w+)$')
    local bucket = { greedy = style == 'g', burst = number_of(burst), refill = number_of(refill) }
    bucket.period, bucket.origin, bucket.terms = number_of(period), moment_of(words[i - 2]), words[i]
    if bucket.refill == 0 or bucket.period == 0 then unreadable() end
    bucket.initial, bucket.token = bucket.burst, bucket.greedy and bucket.period or 1
    bucket.capacity = mul(bucket.burst, bucket.token)
    rule.buckets[#rule.buckets + 1] = bucket
  end
  return rule
end

-- What was missing from the `i`th bucket, and when that last changed.
local function filling_of(words, i)
  local missing, changed = string.match(words[3 * i - 1], '^(%w+)@(.+)$')
  if missing then return number_of(missing), moment_of(changed) end
  return number_of(words[3 * i - 1]), moment_of(words[3 * i - 2])
end

function kinds.b.written(words)
  local _, changed = filling_of(words, 1)
  return changed
end

-- The span in which so much is supplied, from the moment that is kept.
local function supply_takes(bucket, amount)
  if bucket.greedy then return divide_up(amount, bucket.refill) end
  return mul(divide_up(amount, bucket.refill), bucket.period)
end

function kinds.b.memory(rule)
  local longest = 0
  for _, bucket in ipairs(rule.buckets) do longest = most(longest, supply_takes(bucket, bucket.capacity)) end
  return longest
end

-- The filling of a bucket that nobody has used.
local function unused(bucket)
  local filling = { at = now, passed = 0, standing = 0 }
  filling.missing = mul(bucket.burst - bucket.initial, bucket.token)
  if not bucket.greedy then
    filling.at, filling.passed = stretch(bucket.origin, bucket.period)
  end
  return filling
end

-- The filling as it is now.
local function refilled(bucket, at, missing)
  if since(at, now) ~= 0 then
    local filling, standing = unused(bucket), ahead(at, supply_takes(bucket, bucket.capacity))
    filling.missing = missing
    if standing then
      filling.at, filling.passed, filling.standing = at, 0, standing
    else
      filling.unsaved = true
    end
    return filling
  end
  local filling = { at = now, passed = 0, standing = 0, missing = missing }
  local span = since(now, at)
  if bucket.greedy then
    if less(span, supply_takes(bucket, missing)) then
      filling.missing = sub(missing, mul(span, bucket.refill))
    else
      filling.missing = 0
    end
  else
    local periods, passed = divide(span, bucket.period)
    filling.missing = sub(missing, mul(periods, bucket.refill))
    filling.at, filling.passed = minus(now, passed), passed
  end
  return filling
end

function kinds.b.fresh(rule)
  local state = {}
  for i, bucket in ipairs(rule.buckets) do
    state[i] = unused(bucket)
    -- A new bucket that is not full must be remembered even if it grants nothing, or it would never fill.
    state.unsaved = state.unsaved or bucket.initial < bucket.burst
  end
  return state
end

function kinds.b.read(rule, words)
  local state = {}
  for i, bucket in ipairs(rule.buckets) do
    state[i] = refilled(bucket, moment_of(words[3 * i - 2]), (filling_of(words, i)))
    state.unsaved = state.unsaved or state[i].unsaved
  end
  return state
end

-- The bucket of another rule that one is derived from: the same, or else the one in its place.
local function source_of(bucket, other, i)
  for j, old in ipairs(other.buckets) do
    if old.terms == bucket.terms then return j end
  end
  return math.min(i, #other.buckets)
end

-- The tokens that were missing at the last change were missing then, as far as there is room for them, and what was booked
-- ahead of time above that. Since then it has filled by the terms that fill it sooner.
function kinds.b.derived(rule, other, words, before)
  local state = {}
  for i, bucket in ipairs(rule.buckets) do
    local j = source_of(bucket, other, i)
    local old, missing, changed = other.buckets[j], filling_of(words, j)
    local function converted(amount)
      return divide_up(mul(amount, bucket.token), old.token)
    end
    if old.terms == bucket.terms then
      state[i] = refilled(bucket, moment_of(words[3 * j - 2]), missing)
    else
      local owed = sub(missing, old.capacity)
      local used = converted(sub(missing, owed))
      if less(bucket.capacity, used) then used = bucket.capacity end
      local at = changed
      if not bucket.greedy then at = stretch(bucket.origin, bucket.period, changed) end
      state[i] = refilled(bucket, at, add(used, converted(owed)))
      local sooner = converted(before[j].missing)
      if less(sooner, state[i].missing) then state[i].missing = sooner end
    end
    state.unsaved = state.unsaved or state[i].unsaved
  end
  return state
end

function kinds.b.load(rule, key)
  return load_text(kinds.b, rule, key)
end

-- The span until `amount` of what a bucket misses has come.
local function comes_after(bucket, filling, amount)
  if amount == 0 then return 0 end
  return add(sub(supply_takes(bucket, amount), filling.passed), filling.standing)
end

function kinds.b.words(rule, state)
  local words = {}
  for i, bucket in ipairs(rule.buckets) do
    words[#words + 1] = text_of_moment(state[i].at)
    local changed = bucket.greedy and '' or '@' .. text_of_moment(now)
    words[#words + 1] = text_of(state[i].missing) .. changed
    words[#words + 1] = bucket.terms
  end
  return table.concat(words, ' ')
end

function kinds.b.lasts(rule, state)
  local longer = 0
  for _, bucket in ipairs(rule.buckets) do
    if bucket.initial < bucket.burst then
      longer = most(longer, supply_takes(bucket, bucket.capacity))
    end
  end
  return add(kinds.b.full(rule, state), longer)
end

function kinds.b.save(rule, state, key)
  save_text(kinds.b, rule, state, key)
end

function kinds.b.available(rule, state)
  local least
  for i, bucket in ipairs(rule.buckets) do
    local held = divide(sub(bucket.capacity, state[i].missing), bucket.token)
    least = math.min(least or held, held)
  end
  return least
end

function kinds.b.in_use(rule, state)
  local largest = 0
  for i, bucket in ipairs(rule.buckets) do
    largest = math.max(largest, divide_up(state[i].missing, bucket.token))
  end
  return largest
end

function kinds.b.wait(rule, state, cost)
  local latest
  for i, bucket in ipairs(rule.buckets) do
    local missing = add(state[i].missing, mul(cost, bucket.token))
    if less(bucket.capacity, missing) then
      local span = comes_after(bucket, state[i], sub(missing, bucket.capacity))
      latest = most(latest or 0, span)
    end
  end
  return latest
end

function kinds.b.take(rule, state, cost)
  for i, bucket in ipairs(rule.buckets) do
    state[i].missing = add(state[i].missing, mul(cost, bucket.token))
  end
end

-- What others were granted by other terms. They do not make it owe anything: a bucket that is asked beside a larger one
-- would otherwise owe without end.
function kinds.b.charged(rule, state, cost)
  for i, bucket in ipairs(rule.buckets) do
    local filling = state[i]
    local missing = add(filling.missing, mul(cost, bucket.token))
    if less(bucket.capacity, missing) then missing = most(filling.missing, bucket.capacity) end
    filling.missing = missing
  end
end

function kinds.b.add(rule, state, amount)
  for i, bucket in ipairs(rule.buckets) do
    state[i].missing = sub(state[i].missing, mul(amount, bucket.token))
  end
end

-- Had it not been taken, as much as has come since may have found no room.
function kinds.b.undo(rule, state, amount, taken)
  for i, bucket in ipairs(rule.buckets) do
    local filling, came = state[i], nil
    if bucket.greedy then
      came = mul(since(now, taken), bucket.refill)
    else
      came = mul(divide_up(since(filling.at, taken), bucket.period), bucket.refill)
    end
    filling.missing = sub(filling.missing, sub(mul(amount, bucket.token), came))
  end
end

function kinds.b.full(rule, state)
  local latest = 0
  for i, bucket in ipairs(rule.buckets) do
    latest = most(latest, comes_after(bucket, state[i], state[i].missing))
  end
  return latest
end
