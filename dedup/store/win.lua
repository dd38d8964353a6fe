-- WIN: pending -> won, if nobody challenged since we looked.
--
-- KEYS[i]     the stem of the number's group
-- ARGV[1]     lease in milliseconds, counted anew
-- ARGV[2i]    document number (4);  ARGV[2i+1]  how many challengers we have seen
-- returns     for each document its state after this: W is won; P was challenged; false was lost
-- cost        O(1) a document
--
-- Challenges are only ever added: their number is the version that a compare-and-set needs.

-- include common.lua
-- include states.lua

local deadline = milliseconds() + ARGV[1]
local states = {}
for i = 1, #KEYS do
  local stem, number, seen = KEYS[i], ARGV[2 * i], tonumber(ARGV[2 * i + 1])
  local state = claim_of(stem, number)
  if state and string.sub(state, 1, 1) == 'P' then
    local challengers, record = parts_of(state)
    if #challengers == 4 * seen then
      state = put_claim(stem, number, 'W', deadline, owner_of(state), '', record)
    end
  end
  states[i] = state
end
return states
