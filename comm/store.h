// Store: a few small values by which ranks find each other before they have a communicator. Every
// get has a deadline and names the key it waited for. MemoryStore serves threads, FileStore the
// processes of one host; the launcher's coordinator serves many hosts (rankd/grpc_store).
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace ds {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, std::string_view value) = 0;
  // Waits until the key has a value. Throws CommError, naming the key, when none comes in time.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  // Adds to a counter that starts at 0, atomically among all users; returns the new value. The
  // counter reads as decimal digits. Throws CommError when the key holds something else.
  virtual int64_t add(const std::string& key, int64_t delta) = 0;
  // Waits until the counter is at least `target`. Throws CommError as get does.
  virtual void wait(const std::string& key, int64_t target, std::chrono::milliseconds timeout) = 0;
};

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t delta) override;
  void wait(const std::string& key, int64_t target, std::chrono::milliseconds timeout) override;

 private:
  std::mutex values_mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// One file (0600) per key in a directory that exists, belongs to us and is closed to others (0700).
// Values appear whole (rename); counters are serialised by a lock file. Waiting polls.
class FileStore final : public Store {
 public:
  // Throws CommError when the directory is not as described.
  explicit FileStore(std::string directory);
  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t delta) override;
  void wait(const std::string& key, int64_t target, std::chrono::milliseconds timeout) override;

 private:
  const std::string directory_;
};

}  // namespace ds
