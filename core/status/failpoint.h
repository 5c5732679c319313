// Failpoints: named places at which a test may let the process die, stop, wait or fail. Compiled
// only where the build option DS_FAILPOINTS is on; elsewhere DS_FAILPOINT() is nothing and arming
// throws Unsupported.
//
//   DSL_FAILPOINTS="ckpt.after_fsync@rank2=3*off->kill; train.step_begin@epoch1=p(0.1,7)->exit(9)"
//
// Each place has a chain of terms, "[count*]action" joined by "->": a term acts count times (the
// last one for ever, others once where no count is given), then the next takes over. Actions: off,
// kill (SIGKILL), stop (SIGSTOP), exit(code), sleep(milliseconds), error(enospc|eio|comm), and
// p(probability,seed), which stays until a draw succeeds and then lets the next term act. Refuses
// to know what the places are for.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ds {

struct FailpointScope {  // what "@rank" and "@epoch" are compared with
  int rank = 0;
  int64_t epoch = 0;
};

// Every name, in alphabetical order; empty where they are not compiled in.
std::span<const std::string_view> failpoint_names();

// Places that are not for this rank and epoch are left out. Throws UsageError for a name or a term
// that is unknown, Unsupported where there are no failpoints and the text is not empty. Call once,
// early.
void arm_failpoints(std::string_view text, const FailpointScope& scope);

#ifdef DS_FAILPOINTS
void hit_failpoint(std::string_view name);  // thread-safe; throws what error() stands for
#define DS_FAILPOINT(name) ::ds::hit_failpoint(name)
#else
#define DS_FAILPOINT(name) static_cast<void>(0)
#endif

}  // namespace ds
