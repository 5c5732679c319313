// What a rank leaves when a signal ends it: the stack of the thread that it struck in the log, and
// on standard error the line of proto/signal_report.h, which says who sent the signal. Everything
// is done inside the handler, without locks and without memory from the heap. Nothing can be said
// about SIGKILL.
#pragma once

namespace ds {

// Call once, while there is one thread, after prepare_thread_dumps(). The process then still dies
// of the signal.
void prepare_fatal_signals();

}  // namespace ds
