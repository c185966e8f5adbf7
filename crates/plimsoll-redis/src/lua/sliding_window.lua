-- So many in a window that slides on by segments.
--
-- Arguments: limit, length of the window, number of segments, origin of the segments.
-- Kept: the moment the current stretch of one window's length began, the segments and the window, what was used in all
-- segments, the moment of the last change, and for each segment in which anything was used its number, counted from the
-- beginning of the stretch (below 0: in the stretch before), and how much. Segment k begins k * window / segments after it,
-- rounded up. Other segments or another window are other terms, see terms.lua; another limit is not. Expires when the
-- last segment leaves. Exact for all parameters; takes time in proportion to the segments in use, but not where only the
-- newest changes.

kinds.s = {}

function kinds.s.rule()
  local rule = { limit = number(), window = number(), segments = number(), origin = moment_of(word()) }
  rule.terms = text_of(rule.segments) .. '/' .. text_of(rule.window)
  return rule
end

function kinds.s.terms_of(words)
  if not string.match(words[2] or '', '^%d+/%w+$') or not words[4] then unreadable() end
  number_of(words[3])
  return words[2]
end

function kinds.s.rule_of(terms, words)
  local segments, window = string.match(terms, '^(%d+)/(%w+)$')
  local rule = { limit = 0, window = number_of(window), segments = number_of(segments), terms = terms }
  if rule.window == 0 or rule.segments == 0 then unreadable() end
  rule.origin = moment_of(words[1])
  return rule
end

function kinds.s.written(words)
  return moment_of(words[4])
end

function kinds.s.memory(rule)
  return rule.window
end

function kinds.s.fresh(rule)
  local base, passed = stretch(rule.origin, rule.window)
  local newest = divide(mul(passed, rule.segments), rule.window)
  return { base = base, passed = passed, standing = 0, newest = newest, used = 0, counts = {} }
end

-- The number of the segment that a moment lies in; nil if that has left with the stretch before.
local function segment(rule, state, moment)
  local before = since(state.base, moment)
  if before == 0 then return divide(mul(since(moment, state.base), rule.segments), rule.window) end
  if less(rule.window, before) then return nil end
  return divide(mul(sub(rule.window, before), rule.segments), rule.window) - rule.segments
end

function kinds.s.read(rule, words)
  local state, shift = kinds.s.fresh(rule), 0
  local before = moment_of(words[1])
  local between = since(state.base, before)
  if between ~= 0 then
    -- Of what lies two stretches back nothing counts any more.
    if less(rule.window, between) then return state end
    shift = rule.segments
  else
    local standing = ahead(before, rule.window)
    if not standing then
      state.unsaved = true
    elseif standing ~= 0 then
      state.base, state.passed, state.standing, state.newest = before, 0, standing, 0
    end
  end
  for i = 5, #words do
    local index, count = string.match(words[i], '^(-?%d+):(%d+)$')
    if not index then unreadable() end
    index, count = tonumber(index) - shift, tonumber(count)
    -- Time that steps back stands still; a clock that is far ahead says nothing about when it was.
    if state.unsaved then
      index = state.newest
    else
      state.newest = math.max(state.newest, index)
    end
    state.counts[#state.counts + 1] = { index = index, count = count }
  end
  while state.counts[1] and state.counts[1].index <= state.newest - rule.segments do
    table.remove(state.counts, 1)
  end
  for _, each in ipairs(state.counts) do state.used = state.used + each.count end
  if state.standing ~= 0 then
    state.recorded = plus(state.base, divide_up(mul(state.newest, rule.window), rule.segments))
  end
  return state
end

-- All that counted at the last change was used then.
function kinds.s.derived(rule, other, words)
  local state, changed, used = kinds.s.fresh(rule), kinds.s.written(words), number_of(words[3])
  local index = segment(rule, state, changed)
  if not index or index <= state.newest - rule.segments or used == 0 then return state end
  if not ahead(changed, rule.window) then state.unsaved = true end
  state.counts[1] = { index = math.min(roughly(index), state.newest), count = used }
  state.used = used
  return state
end

function kinds.s.load(rule, key)
  return load_text(kinds.s, rule, key)
end

function kinds.s.words(rule, state)
  local words = { text_of_moment(state.base), rule.terms, text_of(state.used), text_of_moment(now) }
  for _, each in ipairs(state.counts) do
    words[#words + 1] = string.format('%.0f:%.0f', each.index, each.count)
  end
  return table.concat(words, ' ')
end

function kinds.s.save(rule, state, key)
  save_text(kinds.s, rule, state, key)
end

function kinds.s.available(rule, state)
  return math.max(0, rule.limit - state.used)
end

function kinds.s.in_use(rule, state)
  return state.used
end

-- The span after which at most `enough` is still used.
local function down_to(rule, state, enough)
  local used = state.used
  for _, each in ipairs(state.counts) do
    used = used - each.count
    if used <= enough then
      local leaves = divide_up(mul(each.index + rule.segments, rule.window), rule.segments)
      return add(sub(leaves, state.passed), state.standing)
    end
  end
  return 0
end

function kinds.s.wait(rule, state, cost)
  if state.used + cost <= rule.limit then return nil end
  return down_to(rule, state, math.max(0, rule.limit - cost))
end

function kinds.s.take(rule, state, cost)
  local last = state.counts[#state.counts]
  if not last or last.index < state.newest then
    last = { index = state.newest, count = 0 }
    state.counts[#state.counts + 1] = last
  end
  last.count = last.count + cost
  state.used = state.used + cost
end

-- The newest first: what leaves last is what is missed longest.
function kinds.s.add(rule, state, amount)
  local left = math.min(amount, state.used)
  state.used = state.used - left
  while left > 0 do
    local last = state.counts[#state.counts]
    local part = math.min(left, last.count)
    last.count = last.count - part
    left = left - part
    if last.count == 0 then state.counts[#state.counts] = nil end
  end
end

-- From the segment in which it was taken, as far as that still counts.
function kinds.s.undo(rule, state, amount, taken)
  local index = segment(rule, state, taken)
  if not index then return end
  index = math.min(roughly(index), state.newest)
  for i, each in ipairs(state.counts) do
    if each.index == index then
      local part = math.min(amount, each.count)
      each.count, state.used = each.count - part, state.used - part
      if each.count == 0 then table.remove(state.counts, i) end
      return
    end
  end
end

function kinds.s.full(rule, state)
  if state.used == 0 then return 0 end
  return down_to(rule, state, 0)
end

kinds.s.lasts = kinds.s.full
