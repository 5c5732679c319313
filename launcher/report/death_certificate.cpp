#include "launcher/report/death_certificate.h"

#include <fmt/format.h>

#include <csignal>

#include "launcher/decide/ending/room.h"
#include "launcher/report/gpu_text.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

constexpr size_t kLinesKept = 5;
constexpr size_t kLongestLine = 400;

// The kernel's reasons for a fault, by si_code.
std::string_view reason_of(const SignalReport& note) {
  switch (note.signal) {
    case SIGSEGV:
      return note.code == SEGV_MAPERR   ? "nothing is mapped there"
             : note.code == SEGV_ACCERR ? "what is mapped there may not be touched so"
                                        : "";
    case SIGBUS:
      return note.code == BUS_ADRERR
                 ? "the file that is mapped there has become shorter, or its disk or "
                   "shared memory is full"
                 : "";
    case SIGFPE:
      return note.code == FPE_INTDIV ? "division by zero" : "";
    default:
      return "";
  }
}

std::string sender_phrase(const SignalReport& note) {
  if (note.code > 0) return "";
  if (note.sender == 0) return "sent from outside its container";
  return fmt::format("sent by pid {}{} of user {}", note.sender,
                     note.sender_name.empty() ? "" : fmt::format(" ({})", note.sender_name),
                     note.user);
}

std::string fault_phrase(const SignalReport& note) {
  if (note.code <= 0 || note.signal == SIGABRT) return "";
  const std::string_view reason = reason_of(note);
  return fmt::format("at address {:#x}{}{}", note.address, reason.empty() ? "" : ", ", reason);
}

std::string memory_phrase(const MemoryDeath& memory) {
  if (!memory.out_of_memory) {
    return memory.looked ? "from outside: the kernel counted no process killed for memory" : "";
  }
  if (memory.cgroup.empty()) {
    return memory.kernel_line.empty()
               ? "probably by the kernel, which killed for memory on this machine at that time"
               : "by the kernel's OOM killer: the machine ran out of memory";
  }
  return fmt::format("by the kernel's OOM killer: cgroup {}{}", memory.cgroup,
                     memory.cgroup_limit > 0
                         ? fmt::format(" has a limit of {}", format_bytes(memory.cgroup_limit))
                         : "");
}

bool is_signal(const Failure& cause, int signal) {
  return cause.kind == Failure::Kind::kSignal && cause.value == signal;
}

std::string row(std::string_view name, std::string_view text) {
  return fmt::format("  {:<10} {}\n", name, text);
}

std::string advice(const Failure& cause, const DeathCircumstances& circumstances) {
  if (circumstances.memory.out_of_memory) {
    return "more memory for the job, fewer ranks on the host, or a higher ZeRO stage; `dslaunch "
           "plan` shows "
           "what takes the memory";
  }
  if (is_signal(cause, SIGKILL) && !circumstances.memory.looked) {
    return "if you did not kill it, the kernel may have run out of memory (dmesg tells)";
  }
  return lack_of_room(cause) ? "make room there; what was committed is untouched" : "";
}

}  // namespace

void LastOutput::add(std::string_view line) {
  if (auto note = parse_signal_report(line)) {
    note_ = std::move(note);
    return;
  }
  lines_.emplace_back(line.substr(0, kLongestLine));
  if (lines_.size() > kLinesKept) lines_.pop_front();
}

std::string death_phrase(const Failure& cause, const DeathCircumstances& circumstances) {
  if (cause.kind != Failure::Kind::kSignal) return "";
  if (cause.value == SIGKILL) return memory_phrase(circumstances.memory);
  const std::optional<SignalReport>& note = circumstances.words.note();
  if (!note || note->signal != cause.value) return "";
  const std::string sender = sender_phrase(*note);
  return sender.empty() ? fault_phrase(*note) : sender;
}

std::string death_details(const Failure& cause, const DeathCircumstances& circumstances) {
  std::string text;
  if (circumstances.pid != 0) {
    text +=
        row("process", circumstances.host.empty()
                           ? fmt::format("pid {}", circumstances.pid)
                           : fmt::format("pid {} on {}", circumstances.pid, circumstances.host));
  }
  if (!circumstances.progress.phase.empty())
    text += row("last seen", describe(circumstances.progress));
  if (circumstances.gpu) text += row("gpu", gpu_last_words(*circumstances.gpu));
  if (!circumstances.memory.kernel_line.empty())
    text += row("kernel", circumstances.memory.kernel_line);
  if (const std::string what = advice(cause, circumstances); !what.empty())
    text += row("advice", what);
  std::string_view name = "it said";
  for (const std::string& line : circumstances.words.lines()) {
    text += row(std::exchange(name, ""), line);
  }
  return text;
}

}  // namespace ds
