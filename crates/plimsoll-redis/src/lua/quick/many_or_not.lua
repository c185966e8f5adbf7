
-- Decides, and answers whether all that are enforced grant; nil if one of them needs more than this.
local function decide_all(looks)
  local place, admits = 4, 1
  queued, size = {}, 1
  for i = 1, #KEYS do
    local cost, mode, letter = ARGV[place] + 0, ARGV[place + 1], ARGV[place + 2]
    if mode ~= '' and mode ~= 's' then return nil end
    local count = lengths[letter]
    local words = { '', '', '', letter }
    for j = 1, count do words[4 + j] = ARGV[place + 2 + j] end
    place = place + 3 + count
    -- A list of one demand. Where nothing is asked for, one has to fit.
    words[5 + count], words[6 + count], words[7 + count] = 1, 1, math.max(1, cost)
    if letter == 'k' then
      words[8 + count] = ARGV[place]
      place = place + 1
    end
    dry, stamp = looks or cost == 0, moment
    local from = size
    if not quicks[letter](words)(KEYS[i], 5 + count) then return nil end
    if out[from + 1] == 0 and mode == '' then admits = 0 end
  end
  return admits
end

-- All that follows is for the rest.
if ARGV[1] == 'take' or ARGV[1] == 'peek' then
  local looks = ARGV[1] == 'peek'
  local well, admits = pcall(decide_all, looks)
  if well and admits == 0 and not looks then
    well, admits = pcall(decide_all, true)
    -- What refused still does.
    if admits == 1 then admits = nil end
  end
  if well and admits then
    for _, write in ipairs(queued) do redis.call(unpack(write)) end
    out[1] = admits
    return out
  end
end

