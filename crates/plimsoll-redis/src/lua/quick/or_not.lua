
-- All that follows is for the rest.
local answered = quick()
if answered then return answered end

