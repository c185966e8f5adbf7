-- Whole numbers of any size, so that no answer is ever rounded.
--
-- Lua has doubles, which hold whole numbers exactly below 2^53. A number here is a plain Lua number while it is
-- below that, and a list of 24-bit digits (lowest first) above; every function takes and gives both. Limits of
-- everyday sizes never leave the plain numbers. There are no negative numbers: `sub` is only called when it fits.
--
-- As text: decimal below 2^53, otherwise `x` and hexadecimal.

local MOST = 9007199254740992
local BASE = 16777216

local function digits(n)
  if type(n) == 'table' then return n end
  local list = {}
  while n > 0 do
    local rest = n % BASE
    list[#list + 1] = rest
    n = (n - rest) / BASE
  end
  return list
end

-- The nearest double.
local function roughly(n)
  if type(n) == 'number' then return n end
  local sum = 0
  for i = #n, 1, -1 do sum = sum * BASE + n[i] end
  return sum
end

-- Makes a plain number of a list that has become small. The list is changed.
local function shortened(list)
  while #list > 0 and list[#list] == 0 do list[#list] = nil end
  if #list > 3 then return list end
  local sum = roughly(list)
  if sum < MOST then return sum end
  return list
end

local function less(a, b)
  if type(a) == 'number' and type(b) == 'number' then return a < b end
  -- A list is never below 2^53.
  if type(a) == 'number' then return true end
  if type(b) == 'number' then return false end
  if #a ~= #b then return #a < #b end
  for i = #a, 1, -1 do
    if a[i] ~= b[i] then return a[i] < b[i] end
  end
  return false
end

local function most(a, b)
  if less(a, b) then return b end
  return a
end

local function add(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    local sum = a + b
    if sum < MOST then return sum end
  end
  a, b = digits(a), digits(b)
  local list, carry = {}, 0
  for i = 1, math.max(#a, #b) do
    local sum = (a[i] or 0) + (b[i] or 0) + carry
    list[i] = sum % BASE
    carry = (sum - list[i]) / BASE
  end
  if carry > 0 then list[#list + 1] = carry end
  return shortened(list)
end

-- a - b, 0 if b is larger.
local function sub(a, b)
  if less(a, b) then return 0 end
  if type(a) == 'number' then return a - b end
  b = digits(b)
  local list, borrow = {}, 0
  for i = 1, #a do
    local rest = a[i] - (b[i] or 0) - borrow
    borrow = 0
    if rest < 0 then
      rest = rest + BASE
      borrow = 1
    end
    list[i] = rest
  end
  return shortened(list)
end

local function mul(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    local product = a * b
    if product < MOST then return product end
  end
  a, b = digits(a), digits(b)
  local list = {}
  for i = 1, #a + #b do list[i] = 0 end
  for i = 1, #a do
    local carry = 0
    for j = 1, #b do
      local sum = list[i + j - 1] + a[i] * b[j] + carry
      list[i + j - 1] = sum % BASE
      carry = (sum - list[i + j - 1]) / BASE
    end
    list[i + #b] = carry
  end
  return shortened(list)
end

-- The quotient rounded down, and the rest. b is not 0.
local function divide(a, b)
  if type(a) == 'number' and type(b) == 'number' then
    local rest = math.fmod(a, b)
    return (a - rest) / b, rest
  end
  local quotient = 0
  while not less(a, b) do
    -- A little less than it is: doubles err by far less than 2^-48. What is missing comes in the next rounds.
    local guess = math.floor(roughly(a) / roughly(b) * (1 - 2 ^ -48))
    if guess < 1 then guess = 1 end
    if guess >= MOST then guess = digits(guess) end
    quotient = add(quotient, guess)
    a = sub(a, mul(guess, b))
  end
  return quotient, a
end

local function divide_up(a, b)
  local quotient, rest = divide(a, b)
  if rest == 0 then return quotient end
  return add(quotient, 1)
end

local function unreadable()
  error('BADSTATE what is kept at the key was not written by this limiter')
end

local function number_of(text)
  if not text then unreadable() end
  if string.match(text, '^%d+$') then
    local n = tonumber(text)
    if n < MOST then return n end
  end
  if not string.match(text, '^x%x+$') then unreadable() end
  local list = {}
  for last = #text, 2, -6 do
    list[#list + 1] = tonumber(string.sub(text, math.max(2, last - 5), last), 16)
  end
  return shortened(list)
end

local function text_of(n)
  if type(n) == 'number' then return string.format('%.0f', n) end
  local parts = { 'x' }
  for i = #n, 1, -1 do parts[#parts + 1] = string.format('%06x', n[i]) end
  return table.concat(parts)
end
