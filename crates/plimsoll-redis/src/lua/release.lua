-- Gives back what a lease holds.
--
-- KEYS: the key of the limit. ARGV: the member, `id:cost`, and the cost. Answers 1, or 0 if the lease was gone: then
-- nothing happens, because what it held may be another's by now.

if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
if tonumber(redis.call('ZINCRBY', KEYS[1], ARGV[2], 'total')) >= 0 then
  redis.call('DEL', KEYS[1])
end
return 1
