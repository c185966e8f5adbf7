
-- The limits that were asked before, by key: decisions that come together are often about the same.
local known = {}

-- How many grants follow in the answers from `place` on, which are of one limit. See answer.lua.
local function granted(place)
  local count = 0
  while place < size do
    if out[place + 1] == 1 then
      count, place = count + 1, place + 5
    elseif out[place + 1] == 3 or out[place + 1] > 4 then
      count, place = count + out[place + 2], place + 8
    else
      return count
    end
  end
  return count
end

-- Decides `count` times about the keys from `first` to `last`, whose arguments begin at `place`, and answers how many of these
-- decisions all limits that are enforced grant; nil if one of them needs more than this. The answers are right only if all
-- decisions are granted, or if there is one.
local function decide_all(looks, place, first, last, count)
  local admits = count
  queued, size = {}, 1
  for i = first, last do
    local cost, mode, letter = ARGV[place] + 0, ARGV[place + 1], ARGV[place + 2]
    if mode ~= '' and mode ~= 's' then return nil end
    local length, key = lengths[letter], KEYS[i]
    local limit = known[key]
    for j = 0, length do
      if limit and limit.words[4 + j] ~= ARGV[place + 2 + j] then limit = nil end
    end
    if not limit then
      local words = { '', '', '', letter }
      for j = 1, length do words[4 + j] = ARGV[place + 2 + j] end
      -- A list of one run.
      words[5 + length] = 1
      limit = { words = words, quick = quicks[letter](words) }
      known[key] = limit
    end
    place = place + 3 + length
    -- Where nothing is asked for, one has to fit.
    limit.words[6 + length], limit.words[7 + length] = count, math.max(1, cost)
    if letter == 'k' then
      limit.words[8 + length] = ARGV[place]
      place = place + 1
    end
    dry, stamp = looks or cost == 0, moment
    local from = size
    if not limit.quick(key, 5 + length) then return nil end
    if mode == '' then admits = math.min(admits, granted(from)) end
  end
  return admits
end

-- The same with its effect, for as many decisions as are granted; or, if the first is not, for all, which are refused alike.
-- Answers how many were decided. Nil has no effect.
local function quickly(looks, place, first, last, count)
  local well, admits = pcall(decide_all, looks, place, first, last, count)
  if well and admits and admits < count and not looks then
    -- Those that are granted come first. If there are none, all limits are looked at without effect.
    local decided = admits
    well, admits = pcall(decide_all, decided == 0, place, first, last, math.max(1, decided))
    -- What refused still does, and what granted too.
    if admits ~= decided then return nil end
    if decided > 0 then count = decided end
  end
  if not well or not admits then return nil end
  for _, write in ipairs(queued) do
    local name, key = write[1], write[2]
    if name == 'SET' then
      texts[key] = write
    else
      texts[key] = nil
      redis.call(unpack(write))
    end
  end
  out[1] = math.min(1, admits)
  return count
end

-- All that follows is for the rest.
if ARGV[1] == 'take' then
  while begins <= #ARGV do
    local last = first + ARGV[begins] - 1
    local left = ARGV[begins + 2] - answered
    out = {}
    local count = quickly(false, begins + 3, first, last, left)
    if not count then break end
    decisions[#decisions + 1] = count
    decisions[#decisions + 1] = out
    answered = answered + count
    if count == left then
      answered, begins, first = 0, begins + 3 + ARGV[begins + 1], last + 1
    end
  end
  for _, write in pairs(texts) do redis.call(unpack(write)) end
  if begins > #ARGV then return decisions end
elseif ARGV[1] == 'peek' and quickly(true, 4, 1, #KEYS, 1) then
  return out
end

