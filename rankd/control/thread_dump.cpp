#include "rankd/control/thread_dump.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "proto/dump_marks.h"

namespace ds {
namespace {

constexpr int kFrames = 48;
constexpr size_t kThreads =
    256;  // more than a rank ever has; those beyond are named without frames

enum SlotState : int { kFree, kAsked, kNoted };

struct FrameSlot {
  std::atomic<int> state{kFree};
  std::atomic<pid_t> thread{0};
  std::array<void*, kFrames> frames{};
  int count = 0;
};

std::array<FrameSlot, kThreads> slots;

int dump_signal() { return SIGRTMIN + 7; }

// Since glibc 2.35 the unwinder finds its tables without a lock, and prepare_thread_dumps() has
// loaded it.
void note_frames(int) {
  const int before = errno;
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  for (FrameSlot& slot : slots) {
    if (slot.state.load() == kAsked && slot.thread.load() == self) {
      slot.count = backtrace(slot.frames.data(), kFrames);
      slot.state.store(kNoted);
    }
  }
  errno = before;
}

std::vector<pid_t> threads_of_this_process() {
  std::vector<pid_t> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  }
  std::ranges::sort(threads);
  return threads;
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string state_of(pid_t thread) {
  std::ifstream in(fmt::format("/proc/self/task/{}/status", thread));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("State:")) return line.substr(line.find_first_not_of(" \t", 6));
  }
  return "gone";
}

// "program(mangled+0x12) [0x34]" with the name in words.
std::string readable(std::string text) {
  const size_t open = text.find('(');
  const size_t plus = text.find('+', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || plus == std::string::npos || plus == open + 1) return text;
  int status = 0;
  const std::string mangled = text.substr(open + 1, plus - open - 1);
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? fmt::format("{} {}", name.get(), text.substr(plus, text.find(')') - plus))
                     : text;
}

std::string frames_text(const FrameSlot& slot) {
  constexpr int kOwnFrames = 2;  // the handler's and the kernel's return from it
  const std::unique_ptr<char*, decltype(&std::free)> names(
      backtrace_symbols(slot.frames.data(), slot.count), &std::free);
  std::string text;
  for (int i = kOwnFrames; names && i < slot.count; ++i) {
    text += fmt::format("    {}\n", readable(names.get()[i]));
  }
  return text;
}

FrameSlot* ask(pid_t thread) {
  for (FrameSlot& slot : slots) {
    if (slot.state.load() != kFree) continue;  // of a thread that was too late the last time
    slot.thread.store(thread);
    slot.state.store(kAsked);
    if (syscall(SYS_tgkill, getpid(), thread, dump_signal()) == 0) return &slot;
    slot.state.store(kFree);
    break;
  }
  return nullptr;
}

void wait_for(const std::vector<FrameSlot*>& asked) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(500);
  const auto late = [](const FrameSlot* slot) {
    return slot != nullptr && slot->state.load() == kAsked;
  };
  while (std::ranges::any_of(asked, late) && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

void prepare_thread_dumps() {
  std::array<void*, 4> frames{};
  backtrace(frames.data(), static_cast<int>(frames.size()));  // loads what it needs
  struct sigaction action {};
  action.sa_handler = note_frames;
  // On a stack of its own where the thread has one: generated kernels use the stack pointer for
  // data.
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  sigaction(dump_signal(), &action, nullptr);
}

std::string thread_dump() {
  for (FrameSlot& slot : slots) {
    if (slot.state.load() == kNoted) slot.state.store(kFree);
  }
  const std::vector<pid_t> threads = threads_of_this_process();
  std::vector<std::string> states;
  std::vector<FrameSlot*> asked;
  for (const pid_t thread : threads) states.push_back(state_of(thread));  // before we disturb them
  for (const pid_t thread : threads) asked.push_back(ask(thread));
  wait_for(asked);
  std::string text;
  for (size_t i = 0; i < threads.size(); ++i) {
    text += fmt::format("  thread {} {}: {}\n", threads[i],
                        first_line(fmt::format("/proc/self/task/{}/comm", threads[i])), states[i]);
    const bool noted = asked[i] != nullptr && asked[i]->state.load() == kNoted;
    text += noted ? frames_text(*asked[i]) : "    (it did not note its frames)\n";
  }
  return text;
}

void write_dump(std::string_view collectives) {
  std::string text = fmt::format("{} pid {} ===\n", kDumpBegins, getpid());
  text += collectives.empty() ? "no collectives yet\n"
                              : fmt::format("collectives, the newest last:\n{}", collectives);
  text += fmt::format("threads:\n{}{} ===\n", thread_dump(), kDumpEnds);
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return;  // a log that cannot be written must not end training
    done += wrote > 0 ? static_cast<size_t>(wrote) : 0;
  }
}

}  // namespace ds
