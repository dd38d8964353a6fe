-- What all scripts share.

-- Stop at what a key answered: a value that is none of ours, or an error. Of a key of the wrong type the server's own
-- message does not say which it was.
local function refuse(key, answer)
  if answer.err and not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer) end
  error({err = 'FOREIGN ' .. key})
end

-- Run a command; a key of the wrong type is named.
local function ask(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) == 'table' and answer.err then refuse(key, answer) end
  return answer
end

-- Return a value that MGET gave, '' if there is none. MGET passes over keys of the wrong type: they are named here.
local function present(key, value)
  if value then return value end
  if redis.call('TYPE', key).ok ~= 'none' then error({err = 'FOREIGN ' .. key}) end
  return ''
end

local function milliseconds()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end
