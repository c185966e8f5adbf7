-- So many in a sliding window, estimated from two counts.
--
-- Arguments: limit, length of a window, origin of the windows.
-- Kept: the moment the window began, what was used in it and in the one before, the length of a window, and the moment of
-- the last change. Windows of another length are other terms, see terms.lua; another limit is not. Expires when neither
-- count says anything any more. Exact for all parameters.

kinds.c = {}

function kinds.c.rule()
  local rule = { limit = number(), window = number(), origin = moment_of(word()) }
  rule.terms = text_of(rule.window)
  return rule
end

function kinds.c.terms_of(words)
  if not words[5] or number_of(words[4]) == 0 then unreadable() end
  return words[4]
end

function kinds.c.rule_of(terms, words)
  return { limit = 0, window = number_of(terms), origin = moment_of(words[1]), terms = terms }
end

function kinds.c.written(words)
  return moment_of(words[5])
end

function kinds.c.memory(rule)
  return add(rule.window, rule.window)
end

function kinds.c.fresh(rule)
  local start, passed = stretch(rule.origin, rule.window)
  return { start = start, passed = passed, standing = 0, current = 0, previous = 0 }
end

function kinds.c.read(rule, words)
  local state = kinds.c.fresh(rule)
  local before, current, previous = moment_of(words[1]), number_of(words[2]), number_of(words[3])
  local between = since(state.start, before)
  if between == 0 then
    state.current, state.previous = current, previous
    local standing = ahead(before, rule.window)
    if not standing then
      state.unsaved = true
    elseif standing ~= 0 then
      state.start, state.passed, state.standing, state.recorded = before, 0, standing, before
    end
  elseif not less(rule.window, between) then
    state.previous = current
  end
  return state
end

-- All that counted at the last change was used then.
function kinds.c.derived(rule, other, words)
  local state, changed = kinds.c.fresh(rule), kinds.c.written(words)
  local faded = sub(other.window, since(changed, moment_of(words[1])))
  local used = add(number_of(words[2]), divide_up(mul(number_of(words[3]), faded), other.window))
  local between = since(state.start, changed)
  if between == 0 then
    state.current = used
    if not ahead(changed, rule.window) then state.unsaved = true end
  elseif not less(rule.window, between) then
    state.previous = used
  end
  return state
end

function kinds.c.load(rule, key)
  return load_text(kinds.c, rule, key)
end

function kinds.c.words(rule, state)
  local counts = text_of(state.current) .. ' ' .. text_of(state.previous)
  return table.concat({ text_of_moment(state.start), counts, rule.terms, text_of_moment(now) }, ' ')
end

function kinds.c.save(rule, state, key)
  save_text(kinds.c, rule, state, key)
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

-- First what was taken in this window; then as much of the window before as still counts for that.
function kinds.c.add(rule, state, amount)
  local part = math.min(amount, state.current)
  state.current = state.current - part
  local rest, left = amount - part, sub(rule.window, state.passed)
  if rest > 0 then
    local counts = divide_up(mul(state.previous, left), rule.window)
    state.previous = math.min(state.previous, (divide(mul(sub(counts, rest), rule.window), left)))
  end
end

function kinds.c.undo(rule, state, amount, taken)
  local before = since(state.start, taken)
  if before == 0 then
    state.current = math.max(0, state.current - amount)
  elseif not less(rule.window, before) then
    state.previous = math.max(0, state.previous - amount)
  end
end

function kinds.c.full(rule, state)
  if state.current == 0 and state.previous == 0 then return 0 end
  local span = rule.window
  if state.current > 0 then span = add(span, rule.window) end
  return add(sub(span, state.passed), state.standing)
end

kinds.c.lasts = kinds.c.full
