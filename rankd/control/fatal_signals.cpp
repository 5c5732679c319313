#include "rankd/control/fatal_signals.h"

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "proto/signal_report.h"

namespace ds {
namespace {

// A line put together without the heap; what does not fit is cut off.
class SignalSafeLine {
 public:
  SignalSafeLine& text(std::string_view words) {
    const size_t room = buffer_.size() - size_;
    const size_t taken = words.size() < room ? words.size() : room;
    std::memcpy(buffer_.data() + size_, words.data(), taken);
    size_ += taken;
    return *this;
  }
  SignalSafeLine& number(int64_t value, unsigned base = 10) {
    if (value < 0) text("-");
    return digits(
        value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value),
        base);
  }
  SignalSafeLine& digits(uint64_t value, unsigned base) {
    std::array<char, 24> out{};
    size_t at = out.size();
    do {
      out[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return text({out.data() + at, out.size() - at});
  }
  void write_to(int fd) const {
    for (size_t done = 0; done < size_;) {
      const ssize_t wrote = write(fd, buffer_.data() + done, size_ - done);
      if (wrote <= 0) return;
      done += static_cast<size_t>(wrote);
    }
  }
  const char* terminated() {
    buffer_[size_ < buffer_.size() ? size_ : buffer_.size() - 1] = '\0';
    return buffer_.data();
  }

 private:
  std::array<char, 512> buffer_{};
  size_t size_ = 0;
};

// The command of the sender while it is still there.
void append_name(SignalSafeLine& line, int64_t pid) {
  SignalSafeLine path;
  path.text("/proc/").number(pid).text("/comm");
  const int fd = open(path.terminated(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  std::array<char, 32> name{};
  ssize_t got = read(fd, name.data(), name.size());
  close(fd);
  while (got > 0 && name[static_cast<size_t>(got - 1)] == '\n') --got;
  if (got > 0) line.text({name.data(), static_cast<size_t>(got)});
}

bool is_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGABRT;
}

void write_stack(int signal) {
  SignalSafeLine head;
  head.text("=== killed by signal ")
      .number(signal)
      .text(", the stack of the thread that it struck:\n");
  head.write_to(STDOUT_FILENO);
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), count, STDOUT_FILENO);
  SignalSafeLine().text("=== end of the stack\n").write_to(STDOUT_FILENO);
}

void report_signal(int signal, siginfo_t* info, void*) {
  const bool sent = info->si_code <= 0;  // by a process; else by the kernel, for what we did
  SignalSafeLine note;
  note.text(kSignalReportBegins)
      .text("signal=")
      .number(signal)
      .text(" code=")
      .number(info->si_code);
  note.text(" sender=")
      .number(sent ? info->si_pid : 0)
      .text(" user=")
      .number(sent ? info->si_uid : 0);
  note.text(" address=")
      .digits(sent ? 0 : reinterpret_cast<uint64_t>(info->si_addr), 16)
      .text(" name=");
  if (sent && info->si_pid > 0) append_name(note, info->si_pid);
  note.text("\n").write_to(STDERR_FILENO);
  if (is_fault(signal)) write_stack(signal);
  ::raise(signal);  // SA_RESETHAND: once we return, it ends us as it would have
}

// ThreadSanitizer and AddressSanitizer have words of their own for faults.
constexpr bool sanitizers_speak() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

void install(int signal) {
  struct sigaction action {};
  action.sa_sigaction = report_signal;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void prepare_fatal_signals() {
  if (!sanitizers_speak()) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) install(signal);
  }
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGXCPU}) install(signal);
}

}  // namespace ds
