-- So many in each window.
--
-- Arguments: limit, length of a window, origin of the windows.
-- Kept: the moment the window began, and what was used in it. Expires with the window. Exact for all parameters.

kinds.w = {}

function kinds.w.rule()
  return { limit = number(), window = number(), origin = moment_of(word()) }
end

function kinds.w.load(rule, key)
  local start, passed = stretch(rule.origin, rule.window)
  local state = { start = start, used = 0, left = sub(rule.window, passed) }
  local words = kept(key)
  if words then
    local before, used = moment_of(words[1]), number_of(words[2])
    if since(start, before) == 0 then
      state.used = used
      local standing = ahead(before, rule.window)
      if standing and standing ~= 0 then
        state.start, state.left = before, add(rule.window, standing)
      end
    end
  end
  return state
end

function kinds.w.save(rule, state, key)
  local span = state.left
  if state.used == 0 then span = 0 end
  keep(key, span, text_of_moment(state.start) .. ' ' .. text_of(state.used))
end

function kinds.w.available(rule, state)
  return math.max(0, rule.limit - state.used)
end

function kinds.w.in_use(rule, state)
  return state.used
end

-- nil if `cost` fits, otherwise the span after which it would.
function kinds.w.wait(rule, state, cost)
  if state.used + cost <= rule.limit then return nil end
  return state.left
end

function kinds.w.take(rule, state, cost)
  state.used = state.used + cost
end

function kinds.w.add(rule, state, amount)
  state.used = math.max(0, state.used - amount)
end

-- The span after which everything is available again.
function kinds.w.full(rule, state)
  if state.used == 0 then return 0 end
  return state.left
end
