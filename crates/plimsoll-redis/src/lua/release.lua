-- Gives back what leases hold.
--
-- KEYS: the key of the limit. ARGV: for each lease the member, `id:cost`, and the cost. Answers for each whether it was given
-- back, 1 or 0. Of those that were gone nothing happens, because what they held may be another's by now.

local answers, given_back, cost = {}, 0, 0
for i = 1, #ARGV, 2 do
  local was_there = redis.call('ZREM', KEYS[1], ARGV[i])
  answers[#answers + 1] = was_there
  if was_there == 1 then
    given_back, cost = given_back + 1, cost + ARGV[i + 1]
  end
end
if given_back > 0 and tonumber(redis.call('ZINCRBY', KEYS[1], string.format('%.0f', cost), 'total')) >= 0 then
  redis.call('DEL', KEYS[1])
end
return answers
