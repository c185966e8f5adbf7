
-- Everything but lists. See decide.lua.

for i, key in ipairs(KEYS) do
  local kind = kinds[word()]
  local rule = kind.rule()
  limits[i] = { key = key, kind = kind, rule = rule, state = kind.load(rule, key) }
end

if asked == 'take' then return told(take()) end
if asked == 'peek' then return decide(false) end

local limit = limits[1]
if asked == 'look' then
  local left, full = room(limit)
  return { left, limit.kind.in_use(limit.rule, limit.state), full }
end
if asked == 'up_to' then
  local left = limit.kind.available(limit.rule, limit.state)
  local taken = math.min(left, amount)
  if taken > 0 and limit.kind.wait(limit.rule, limit.state, taken) ~= nil then taken = 0 end
  if taken > 0 then change(limit, 'take', taken) end
  local answer = { taken, room(limit) }
  if taken > 0 or limit.state.unsaved then save(limit) end
  answer[#answer + 1] = text_of_moment(recorded())
  return told(answer)
end
if asked == 'borrow' then
  local longest = number()
  if refusal(limit) then return told(take()) end
  -- The other half is for others, so batches get smaller as the limit is used up.
  local half = math.floor(limit.kind.available(limit.rule, limit.state) / 2)
  local batch = math.max(amount, math.min(longest, half))
  if limit.kind.wait(limit.rule, limit.state, batch) == nil then amount = batch end
  local answer = take()
  answer[#answer + 1] = amount
  return told(answer)
end
if asked == 'charge' then
  local part = amount
  if not limit.kind.owes then part = math.min(amount, limit.kind.available(limit.rule, limit.state)) end
  if part == 0 then return {} end
  change(limit, 'take', part)
end
if asked == 'undo' then
  change(limit, 'undo', amount, moment_of(word()))
end
if asked == 'book' then
  local longest = word()
  local reason, span = refusal(limit)
  local late = span and longest ~= '' and less(number_of(longest), span)
  if reason and (late or not span) then
    return { 0, 1, reason, span_text(span), room(limit) }
  end
  if amount > 0 then
    change(limit, 'take', amount)
    save(limit)
  end
  return told({ 1, text_of(span or 0) })
end
if asked == 'add' then
  change(limit, 'add', amount)
end
save(limit)
return told({})
