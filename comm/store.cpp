#include "comm/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/files/file.h"

namespace ds {
namespace {

using SteadyClock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& call, const std::string& path) {
  throw CommError(
      fmt::format("store: {} {}: {}", call, path, std::generic_category().message(errno)));
}

[[noreturn]] void timed_out(const std::string& key, std::chrono::milliseconds timeout) {
  throw CommError(fmt::format("store: no value for \"{}\" within {} ms", key, timeout.count()));
}

int64_t parse_counter(const std::string& key, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw CommError(fmt::format("store: \"{}\" holds \"{}\", expected a counter", key, text));
  }
  return value;
}

// A key may hold any byte; a file name may not.
std::string file_name(const std::string& key) {
  std::string name;
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    name += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return name;
}

std::optional<std::string> read_whole(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    if (errno == ENOENT) return std::nullopt;
    fail("open", path);
  }
  std::string value;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = read(fd.get(), buffer, sizeof(buffer))) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path);
    value.append(buffer, static_cast<size_t>(n));
  }
  return value;
}

void write_whole(const std::string& path, std::string_view value) {
  std::string temporary = path + ".XXXXXX";
  const Fd fd(mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (!fd.valid()) fail("mkostemp", temporary);
  size_t written = 0;
  while (written < value.size()) {
    const ssize_t n = write(fd.get(), value.data() + written, value.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      unlink(temporary.c_str());
      fail("write", temporary);
    }
    written += static_cast<size_t>(n);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    unlink(temporary.c_str());
    fail("rename", path);
  }
}

// Calls `look` until it returns a value, ever less often.
template <class Look>
auto poll_until(const std::string& key, std::chrono::milliseconds timeout, const Look& look) {
  constexpr std::chrono::microseconds kLongest{20'000};
  const auto deadline = SteadyClock::now() + timeout;
  std::chrono::microseconds pause{200};
  while (true) {
    if (auto found = look()) return *found;
    if (SteadyClock::now() >= deadline) timed_out(key, timeout);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongest);
  }
}

}  // namespace

void MemoryStore::set(const std::string& key, std::string_view value) {
  const std::lock_guard lock(values_mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  std::unique_lock lock(values_mutex_);
  if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); })) {
    timed_out(key, timeout);
  }
  return values_.at(key);
}

int64_t MemoryStore::add(const std::string& key, int64_t delta) {
  const std::lock_guard lock(values_mutex_);
  std::string& value = values_[key];
  const int64_t sum = (value.empty() ? 0 : parse_counter(key, value)) + delta;
  value = fmt::format("{}", sum);
  changed_.notify_all();
  return sum;
}

void MemoryStore::wait(const std::string& key, int64_t target, std::chrono::milliseconds timeout) {
  std::unique_lock lock(values_mutex_);
  const auto there = [&] {
    const auto found = values_.find(key);
    return found != values_.end() && parse_counter(key, found->second) >= target;
  };
  if (!changed_.wait_for(lock, timeout, there)) timed_out(key, timeout);
}

FileStore::FileStore(std::string directory) : directory_(std::move(directory)) {
  struct stat status {};
  if (lstat(directory_.c_str(), &status) != 0) fail("lstat", directory_);
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
    throw CommError(fmt::format(
        "store: {} is not a directory of ours that others cannot enter (0700)", directory_));
  }
}

void FileStore::set(const std::string& key, std::string_view value) {
  write_whole(directory_ + "/" + file_name(key), value);
}

std::string FileStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  const std::string path = directory_ + "/" + file_name(key);
  return poll_until(key, timeout, [&] { return read_whole(path); });
}

int64_t FileStore::add(const std::string& key, int64_t delta) {
  const std::string path = directory_ + "/" + file_name(key);
  const std::string lock_path = directory_ + "/.lock";
  const Fd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) fail("open", lock_path);
  // Held for one read and one write; released by close, also when we are killed.
  while (flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail("flock", lock_path);
  }
  const std::optional<std::string> value = read_whole(path);
  const int64_t sum = (value ? parse_counter(key, *value) : 0) + delta;
  write_whole(path, fmt::format("{}", sum));
  return sum;
}

void FileStore::wait(const std::string& key, int64_t target, std::chrono::milliseconds timeout) {
  const std::string path = directory_ + "/" + file_name(key);
  poll_until(key, timeout, [&]() -> std::optional<int64_t> {
    const std::optional<std::string> value = read_whole(path);
    if (!value) return std::nullopt;
    const int64_t count = parse_counter(key, *value);
    return count >= target ? std::optional(count) : std::nullopt;
  });
}

}  // namespace ds
