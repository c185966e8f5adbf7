
-- The limits that were asked before, by key: decisions that come together are often about the same.
local known = {}

-- Decides about the keys from `first` to `last`, whose arguments begin at `place`, and answers whether all that are enforced
-- grant; nil if one of them needs more than this.
local function decide_all(looks, place, first, last)
  local admits = 1
  queued, size = {}, 1
  for i = first, last do
    local cost, mode, letter = ARGV[place] + 0, ARGV[place + 1], ARGV[place + 2]
    if mode ~= '' and mode ~= 's' then return nil end
    local count, key = lengths[letter], KEYS[i]
    local limit = known[key]
    for j = 0, count do
      if limit and limit.words[4 + j] ~= ARGV[place + 2 + j] then limit = nil end
    end
    if not limit then
      local words = { '', '', '', letter }
      for j = 1, count do words[4 + j] = ARGV[place + 2 + j] end
      -- A list of one run.
      words[5 + count] = 1
      limit = { words = words, quick = quicks[letter](words) }
      known[key] = limit
    end
    place = place + 3 + count
    -- Where nothing is asked for, one has to fit.
    limit.words[6 + count], limit.words[7 + count] = 1, math.max(1, cost)
    if letter == 'k' then
      limit.words[8 + count] = ARGV[place]
      place = place + 1
    end
    dry, stamp = looks or cost == 0, moment
    local from = size
    if not limit.quick(key, 5 + count) then return nil end
    if out[from + 1] == 0 and mode == '' then admits = 0 end
  end
  return admits
end

-- The same with its effect. False has no effect.
local function quickly(looks, place, first, last)
  local well, admits = pcall(decide_all, looks, place, first, last)
  if well and admits == 0 and not looks then
    well, admits = pcall(decide_all, true, place, first, last)
    -- What refused still does.
    if admits == 1 then admits = nil end
  end
  if not well or not admits then return false end
  for _, write in ipairs(queued) do
    local name, key = write[1], write[2]
    if name == 'SET' then
      texts[key] = write
    else
      texts[key] = nil
      redis.call(unpack(write))
    end
  end
  out[1] = admits
  return true
end

-- All that follows is for the rest.
if ARGV[1] == 'take' then
  while begins <= #ARGV do
    local last = first + ARGV[begins] - 1
    out = {}
    if not quickly(false, begins + 2, first, last) then break end
    decisions[#decisions + 1] = out
    begins, first = begins + 2 + ARGV[begins + 1], last + 1
  end
  for _, write in pairs(texts) do redis.call(unpack(write)) end
  if begins > #ARGV then return decisions end
elseif ARGV[1] == 'peek' and quickly(true, 4, 1, #KEYS) then
  return out
end

