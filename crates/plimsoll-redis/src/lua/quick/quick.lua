-- The quick way: the common case of one limit, in plain numbers and without any of what follows.
--
-- Every call runs through its whole script, and defining functions that are not needed costs as much as deciding. So
-- what comes most often is decided first: one limit of an everyday size, something to take, and a state that was not
-- written in the future. `quick` decides a list as batch.lua would, to the nanosecond, and writes the same state; otherwise
-- it answers nothing, has changed nothing, and batch.lua decides.
--
-- `quick` takes a key and the place of its list, and answers the place after the list. A state is read once, every demand
-- of the list is decided on it in memory, and it is written once.
--
-- The client only puts this in front where no product can reach 2^52, so that doubles hold all of them exactly.
-- `(a + -a % b) / b` is a / b, rounded up. Functions are few and names are local, because each costs time in every call.

local call, argv, hand = redis.call, ARGV, ARGV[2] ~= ''
local second, nano
if hand then
  local s, n = string.match(argv[2], '^(%d+)%.(%d+)$')
  second, nano = s + 0, n + 0
else
  local time = call('TIME')
  second, nano = time[1] + 0, time[2] * 1000
end
local moment = string.format('%d.%d', second, nano)
-- What a grant ends with: the moment, and in the grants that follow 0, which is the same again.
local stamp = moment
-- Whether a demand is only looked at: then a grant says what is left as it is.
local dry = false
