
-- Everything but lists. See decide.lua.

local limit = limit_at(KEYS[1], number_of(ARGV[3]))

-- Decides and writes.
local function take()
  local answer = decide(limit, true)
  if limit.changed then save(limit) end
  return answer
end

if asked == 'peek' then return decide(limit, false) end
if asked == 'look' then
  local left, full = room(limit)
  return { left, limit.kind.in_use(limit.rule, limit.state), full }
end
if asked == 'up_to' then
  local left = limit.kind.available(limit.rule, limit.state)
  local taken = math.min(left, limit.cost)
  if taken > 0 and limit.kind.wait(limit.rule, limit.state, taken) ~= nil then taken = 0 end
  if taken > 0 then change(limit, 'take', taken) end
  local answer = { taken, room(limit) }
  if taken > 0 or limit.state.unsaved then save(limit) end
  answer[#answer + 1] = text_of_moment(limit.state.recorded or now)
  return told(answer)
end
if asked == 'borrow' then
  local longest = number()
  if refusal(limit) then return told(take()) end
  limit.cost = batch_of(limit, longest)
  local answer = take()
  answer[#answer + 1] = limit.cost
  return told(answer)
end
if asked == 'charge' and charge(limit) == 0 then return {} end
if asked == 'undo' then
  change(limit, 'undo', limit.cost, moment_of(word()))
end
if asked == 'book' then
  local longest = word()
  local reason, span = refusal(limit)
  local late = span and longest ~= '' and less(number_of(longest), span)
  if reason and (late or not span) then return refused(limit, reason, span) end
  if limit.cost > 0 then
    change(limit, 'take', limit.cost)
    save(limit)
  end
  return told({ 1, text_of(span or 0) })
end
if asked == 'add' then
  change(limit, 'add', limit.cost)
end
save(limit)
return told({})
