-- So many in a sliding window, estimated from two counts.
--
-- Arguments: limit, length of a window, origin of the windows.
-- Kept: the moment the window began, what was used in it and in the one before. Expires when neither counts any
-- more. Exact for all parameters.

kinds.c = {}

function kinds.c.rule()
  return { limit = number(), window = number(), origin = moment_of(word()) }
end

function kinds.c.load(rule, key)
  local start, passed = stretch(rule.origin, rule.window)
  local state = { start = start, passed = passed, standing = 0, current = 0, previous = 0 }
  local words = kept(key)
  if not words then return state end
  local before, current, previous = moment_of(words[1]), number_of(words[2]), number_of(words[3])
  local between = since(start, before)
  if between == 0 then
    state.current, state.previous = current, previous
    local standing = ahead(before, rule.window)
    if standing and standing ~= 0 then
      state.start, state.passed, state.standing = before, 0, standing
    end
  elseif not less(rule.window, between) then
    state.previous = current
  end
  return state
end

function kinds.c.save(rule, state, key)
  local words = { text_of_moment(state.start), text_of(state.current), text_of(state.previous) }
  keep(key, kinds.c.full(rule, state), table.concat(words, ' '))
end

function kinds.c.available(rule, state)
  local free = mul(math.max(0, rule.limit - state.current), rule.window)
  local faded = mul(state.previous, sub(rule.window, state.passed))
  return (divide(sub(free, faded), rule.window))
end

function kinds.c.in_use(rule, state)
  return math.max(0, rule.limit - kinds.c.available(rule, state))
end

-- The least span into a window after which `cost` fits beside `current`; nil if that is not in this window.
local function fits_after(rule, current, previous, cost)
  local room = rule.limit - current - cost
  if room < 0 then return nil end
  if previous <= room then return 0 end
  local span = divide_up(mul(rule.window, previous - room), previous)
  if less(span, rule.window) then return span end
  return nil
end

function kinds.c.wait(rule, state, cost)
  if cost <= kinds.c.available(rule, state) then return nil end
  local span = fits_after(rule, state.current, state.previous, cost)
  if span then return add(sub(span, state.passed), state.standing) end
  -- In the next window what is current now fades; after that nothing is left of it.
  span = add(rule.window, fits_after(rule, 0, state.current, cost) or rule.window)
  return add(sub(span, state.passed), state.standing)
end

function kinds.c.take(rule, state, cost)
  state.current = state.current + cost
end

function kinds.c.add(rule, state, amount)
  state.current = math.max(0, state.current - amount)
end

function kinds.c.full(rule, state)
  if state.current == 0 and state.previous == 0 then return 0 end
  local span = rule.window
  if state.current > 0 then span = add(span, rule.window) end
  return add(sub(span, state.passed), state.standing)
end
