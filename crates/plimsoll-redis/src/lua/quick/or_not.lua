
-- All that follows is for the rest.
if argv[1] == 'batch' then
  for i = 1, #KEYS do
    local answered, stamped = size, stamp
    local well, rest = pcall(quick, KEYS[i], list)
    if not well or not rest then
      for j = answered + 1, size do out[j] = nil end
      size, stamp = answered, stamped
      break
    end
    list, done = rest, i
  end
  if done == #KEYS then return out end
end

