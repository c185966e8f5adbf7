-- So many in each window.
--
-- Arguments: limit, length of a window, origin of the windows.
-- Kept: the moment the window began, what was used in it, the length of a window, and the moment of the last change. Windows
-- of another length are other terms, see terms.lua; another limit is not. Expires with the window. Exact for all
-- parameters.

kinds.w = {}

function kinds.w.rule()
  local rule = { limit = number(), window = number(), origin = moment_of(word()) }
  rule.terms = text_of(rule.window)
  return rule
end

function kinds.w.terms_of(words)
  if not words[4] or number_of(words[3]) == 0 then unreadable() end
  return words[3]
end

function kinds.w.rule_of(terms, words)
  return { limit = 0, window = number_of(terms), origin = moment_of(words[1]), terms = terms }
end

function kinds.w.written(words)
  return moment_of(words[4])
end

function kinds.w.memory(rule)
  return rule.window
end

function kinds.w.fresh(rule)
  local start, passed = stretch(rule.origin, rule.window)
  return { start = start, used = 0, left = sub(rule.window, passed) }
end

function kinds.w.read(rule, words)
  local state = kinds.w.fresh(rule)
  local before, used = moment_of(words[1]), number_of(words[2])
  if since(state.start, before) == 0 then
    state.used = used
    local standing = ahead(before, rule.window)
    if not standing then
      state.unsaved = true
    elseif standing ~= 0 then
      state.start, state.left, state.recorded = before, add(rule.window, standing), before
    end
  end
  return state
end

-- It counts as long as the window lasts in which it was used at the latest.
function kinds.w.derived(rule, other, words)
  local state, changed = kinds.w.fresh(rule), kinds.w.written(words)
  if since(state.start, changed) == 0 then
    state.used = number_of(words[2])
    if not ahead(changed, rule.window) then state.unsaved = true end
  end
  return state
end

function kinds.w.load(rule, key)
  return load_text(kinds.w, rule, key)
end

function kinds.w.words(rule, state)
  return table.concat({ text_of_moment(state.start), text_of(state.used), rule.terms, text_of_moment(now) }, ' ')
end

function kinds.w.save(rule, state, key)
  save_text(kinds.w, rule, state, key)
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

-- What was taken in an earlier window is gone with it.
function kinds.w.undo(rule, state, amount, taken)
  if since(state.start, taken) == 0 then kinds.w.add(rule, state, amount) end
end

-- The span after which everything is available again.
function kinds.w.full(rule, state)
  if state.used == 0 then return 0 end
  return state.left
end

kinds.w.lasts = kinds.w.full
