// What every thread of this process does right now, for `dslaunch stack` and SIGUSR2: a signal
// makes each thread note its own frames, and the asking thread writes them down. So it works while
// training is stuck, needs no debugger, and disturbs nothing but interrupted system calls
// (restarted, or looked at again).
#pragma once

#include <string>
#include <string_view>

namespace ds {

// Call before the first dump, while there is one thread: makes the unwinder ready and installs the
// signal.
void prepare_thread_dumps();

// One block for each thread: number, name, state, frames. A thread that does not note its frames
// within half a second is named without them. One caller at a time.
std::string thread_dump();

// The lines of proto/dump_marks.h, and between them `collectives` (the ledger) and the threads, on
// standard output: the rank's log.
void write_dump(std::string_view collectives);

}  // namespace ds
