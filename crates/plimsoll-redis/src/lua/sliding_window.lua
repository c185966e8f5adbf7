-- So many in a window that slides on by segments.
--
-- Arguments: limit, length of the window, number of segments, origin of the segments.
-- Kept: the moment the current stretch of one window's length began, the segments and the window, what was used in all
-- segments, and for each segment in which anything was used its number, counted from that moment (below 0: in the stretch
-- before), and how much. Segment k begins k * window / segments after it, rounded up. If segments or window were others,
-- the limit has been changed: then everything counts as if it had been used now. Expires when the last segment leaves.
-- Exact for all parameters; takes time in proportion to the segments in use, but not where only the newest changes.

kinds.s = {}

-- How a limit is divided, as text.
local function division(rule)
  return text_of(rule.segments) .. '/' .. text_of(rule.window)
end

function kinds.s.rule()
  return { limit = number(), window = number(), segments = number(), origin = moment_of(word()) }
end

function kinds.s.load(rule, key)
  local base, passed = stretch(rule.origin, rule.window)
  local newest = divide(mul(passed, rule.segments), rule.window)
  local state = { base = base, passed = passed, standing = 0, newest = newest, used = 0, counts = {} }
  local words = kept(key)
  if not words then return state end
  local before, shift = moment_of(words[1]), 0
  if not string.match(words[2] or '', '^%w+/%w+$') or not number_of(words[3]) then unreadable() end
  local changed = words[2] ~= division(rule)
  state.unsaved = changed
  local between = since(base, before)
  if changed then
    before = base
  elseif between ~= 0 then
    -- Of what lies two stretches back nothing counts any more.
    if less(rule.window, between) then return state end
    shift = rule.segments
  else
    local standing = ahead(before, rule.window)
    if standing and standing ~= 0 then
      state.base, state.passed, state.standing, state.newest = before, 0, standing, 0
    end
  end
  for i = 4, #words do
    local index, count = string.match(words[i], '^(-?%d+):(%d+)$')
    if not index then unreadable() end
    index, count = tonumber(index) - shift, tonumber(count)
    if changed then index = newest end
    -- Time that steps back stands still.
    state.newest = math.max(state.newest, index)
    state.counts[#state.counts + 1] = { index = index, count = count }
  end
  while state.counts[1] and state.counts[1].index <= state.newest - rule.segments do
    table.remove(state.counts, 1)
  end
  for _, each in ipairs(state.counts) do state.used = state.used + each.count end
  return state
end

function kinds.s.save(rule, state, key)
  local words = { text_of_moment(state.base), division(rule), text_of(state.used) }
  for _, each in ipairs(state.counts) do
    words[#words + 1] = string.format('%.0f:%.0f', each.index, each.count)
  end
  keep(key, kinds.s.full(rule, state), table.concat(words, ' '))
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
  local before, index = since(state.base, taken), nil
  if before == 0 then
    index = divide(mul(since(taken, state.base), rule.segments), rule.window)
  elseif less(rule.window, before) then
    return
  else
    index = divide(mul(sub(rule.window, before), rule.segments), rule.window) - rule.segments
  end
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
