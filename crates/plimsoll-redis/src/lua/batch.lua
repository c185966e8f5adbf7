
-- The lists that were not decided the quick way. See list.lua.

if asked == 'batch' then
  local kind = kinds[word()]
  local rule = kind.rule()
  local function decide_list(key)
    local limit = { key = key, kind = kind, rule = rule, state = kind.load(rule, key) }
    for _ = 1, number() do
      local count = number()
      limit.cost = number()
      for _ = 1, count do
        if rule.id then rule.id = word() end
        for _, part in ipairs(decide(limit, true)) do
          size = size + 1
          out[size] = part
        end
      end
    end
    if limit.changed then save(limit) end
  end
  place = list - 1
  for i = done + 1, #KEYS do
    local from, answered = place, size
    local well, problem = pcall(decide_list, KEYS[i])
    if not well then
      local text = type(problem) == 'table' and problem.err or problem
      if not is_of_key(text) then error(problem, 0) end
      for j = answered + 1, size do out[j] = nil end
      size, place = answered, from
      for _ = 1, number() do
        local count = number()
        place = place + 1
        if rule.id then place = place + count end
        for _ = 1, count do
          out[size + 1], out[size + 2] = 2, text
          size = size + 2
        end
      end
    end
  end
  return told(out)
end
