-- One or several token buckets that must all grant.
--
-- Arguments: how many; for each: `g` for greedy or `i` for interval, burst, tokens at the beginning, tokens
-- of a refill, its period, origin of the periods.
-- Kept for each: a moment, what was missing from the full bucket at that moment, and its terms. Of a greedy bucket it is the
-- moment of the last change, and the missing is counted in parts: a token is `period` parts, and each nanosecond
-- brings `refill` of them. Of an interval bucket it is the beginning of a period, and the missing is counted in tokens.
-- If the terms were others, the limit has been changed: then the tokens that were missing are missing now, as far as
-- there is room for them.
-- Expires when all are full; if a new bucket is not full, so much later as an empty one takes to fill.
-- More may be missing than fits the bucket: what was booked ahead of time. Exact for all parameters.

kinds.b = {}

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
    rule.limit = math.min(rule.limit or bucket.burst, bucket.burst)
  end
  return rule
end

-- The span in which so much is supplied, from the moment that is kept.
local function supply_takes(bucket, amount)
  if bucket.greedy then return divide_up(amount, bucket.refill) end
  return mul(divide_up(amount, bucket.refill), bucket.period)
end

-- The filling of a bucket that nobody has used.
local function fresh(bucket)
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
    local filling, standing = fresh(bucket), ahead(at, supply_takes(bucket, bucket.capacity))
    filling.missing = missing
    if standing then filling.at, filling.passed, filling.standing = at, 0, standing end
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

function kinds.b.load(rule, key)
  local words = kept(key)
  local state = { absent = not words }
  if words and #words % 3 ~= 0 then unreadable() end
  for i, bucket in ipairs(rule.buckets) do
    state[i] = fresh(bucket)
    if words and words[3 * i] then
      local missing, terms = number_of(words[3 * i - 1]), words[3 * i]
      if terms == bucket.terms then
        state[i] = refilled(bucket, moment_of(words[3 * i - 2]), missing)
      else
        local style, period = string.match(terms, '^([gi])%w+/%w+/(%w+)$')
        local tokens = missing
        if style ~= 'i' then tokens = divide_up(missing, most(1, number_of(period))) end
        if less(bucket.burst, tokens) then tokens = bucket.burst end
        state[i].missing = mul(tokens, bucket.token)
        state.unsaved = true
      end
    end
  end
  -- A new bucket that is not full must be remembered even if it grants nothing, or it would never fill.
  for i, bucket in ipairs(rule.buckets) do
    state.unsaved = state.unsaved or (state.absent and bucket.initial < bucket.burst)
  end
  return state
end

-- The span until `amount` of what a bucket misses has come.
local function comes_after(bucket, filling, amount)
  if amount == 0 then return 0 end
  return add(sub(supply_takes(bucket, amount), filling.passed), filling.standing)
end

function kinds.b.save(rule, state, key)
  local words, longer = {}, 0
  for i, bucket in ipairs(rule.buckets) do
    words[#words + 1] = text_of_moment(state[i].at)
    words[#words + 1] = text_of(state[i].missing)
    words[#words + 1] = bucket.terms
    if bucket.initial < bucket.burst then
      longer = most(longer, supply_takes(bucket, bucket.capacity))
    end
  end
  keep(key, add(kinds.b.full(rule, state), longer), table.concat(words, ' '))
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

function kinds.b.add(rule, state, amount)
  for i, bucket in ipairs(rule.buckets) do
    state[i].missing = sub(state[i].missing, mul(amount, bucket.token))
  end
end

function kinds.b.full(rule, state)
  local latest = 0
  for i, bucket in ipairs(rule.buckets) do
    latest = most(latest, comes_after(bucket, state[i], state[i].missing))
  end
  return latest
end
