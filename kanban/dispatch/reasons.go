package dispatch

// meaning is what a reason says of a card in general; the Hold of one card says it in particular.
type meaning struct {
	Kept   bool   // the card could start, and something that this dispatcher knows keeps it for a while: nothing is wrong
	Parked bool   // the card is not for the dispatcher to start
	Text   string // completes "held because …"
	Remedy string // for a hold without one of its own
}

// meanings has every reason. A reason that is neither kept nor parked is a fault that a person has to mend.
var meanings = map[Reason]meaning{
	DispatchOff:      {Kept: true, Text: "this daemon does not dispatch", Remedy: "set kanban.dispatch to true"},
	NoDispatcher:     {Text: "nobody dispatches", Remedy: "start it: gatewayd --foreground"},
	NotLeader:        {Kept: true, Text: "another process dispatches on these boards", Remedy: "nothing: that process starts the cards"},
	BoardDisabled:    {Text: "the board's file is damaged", Remedy: "repair it, or put a backup back"},
	BoardUnavailable: {Text: "the board cannot be read just now", Remedy: "nothing: it is tried again by itself"},
	BoardLocked:      {Kept: true, Text: "another process is in its tick on the board", Remedy: "nothing: it will start the card, or let go"},
	BoardPaused:      {Kept: true, Text: "the board is paused", Remedy: "gatewayd kanban resume"},

	Triage:      {Parked: true, Text: "it is a rough idea", Remedy: "specify it"},
	ParentsOpen: {Parked: true, Text: "its parents are not done", Remedy: "finish or archive them, or unlink"},
	Scheduled:   {Parked: true, Text: "it waits for its time", Remedy: "wait, or unblock it"},
	Blocked:     {Parked: true, Text: "it waits for a person", Remedy: "settle what it waits for and unblock it"},
	Running:     {Parked: true, Text: "it is being worked on", Remedy: "nothing: it is running"},
	Claimed:     {Kept: true, Text: "somebody has claimed it", Remedy: "the claim runs out by itself"},
	Ended:       {Parked: true, Text: "it is finished", Remedy: "nothing: it is finished"},
	UnknownWord: {Parked: true, Text: "its status is not known here", Remedy: "another program wrote it; ask there"},

	Unassigned:     {Parked: true, Text: "it has no assignee", Remedy: "assign it to a lane, or set kanban.default_assignee"},
	NoLane:         {Parked: true, Text: "its assignee is no lane", Remedy: "add the lane, assign the card to one that is there, or work on it by hand"},
	ProgramMissing: {Text: "its lane's program is missing", Remedy: "install it, or correct the lane's argv"},
	NoModel:        {Text: "its lane needs a model", Remedy: "set model.base_url, or start a local model server"},
	LaneBackoff:    {Kept: true, Text: "its lane fails as a whole and waits", Remedy: "look at the workers' logs and the host; the lane is tried again by itself"},
	ReviewOff:      {Parked: true, Text: "reviews are not dispatched", Remedy: "set kanban.review_dispatch to true, or review it by hand"},

	InfrastructureCooldown: {Kept: true, Text: "the host refused the last start", Remedy: "wait, or give the host room"},
	RateLimitCooldown:      {Kept: true, Text: "the last run met a rate limit", Remedy: "wait, or set kanban.rate_limit_cooldown"},
	BlockerAuth:            {Kept: true, Text: "the last run was refused", Remedy: "give the lane working credentials; the card is tried again by itself"},
	RecentSuccess:          {Kept: true, Text: "it was completed a moment ago", Remedy: "complete the card, or block and unblock it to have it done again"},
	ActivePR:               {Kept: true, Text: "a pull request may be this card's already", Remedy: "hand the card on, or close the pull request"},
	PreviousWorker:         {Kept: true, Text: "the worker of an earlier run still lives", Remedy: "wait; it has been asked to end"},

	LaneCap:   {Kept: true, Text: "its lane is full", Remedy: "wait, or raise the lane's max_in_progress"},
	PoolCap:   {Kept: true, Text: "its pool is full", Remedy: "wait, or raise the pool"},
	BoardCap:  {Kept: true, Text: "the board is full", Remedy: "wait, or raise the board's cap"},
	GlobalCap: {Kept: true, Text: "as many workers run as may", Remedy: "wait, or raise kanban.max_in_progress"},

	MemoryElevated: {Kept: true, Text: "memory is short: one start at a time", Remedy: "wait, or free some memory"},
	MemoryCritical: {Kept: true, Text: "there is no memory to start anything", Remedy: "free some memory"},

	NotStarted: {Text: "it was to be started and was not", Remedy: "look at the daemon's log for this board"},
	NextTick:   {Parked: true, Text: "nothing holds it", Remedy: "nothing: it starts with the next tick"},
}

// NotStarted is a ready card that no gate holds and that yet has not started.
const NotStarted Reason = "not_started"

// Text completes "held because …".
func (r Reason) Text() string { return meanings[r].Text }

// completed fills in the remedy that a hold does not carry.
func completed(h Hold) Hold {
	if h.Remedy == "" {
		h.Remedy = meanings[h.Reason].Remedy
	}
	return h
}
