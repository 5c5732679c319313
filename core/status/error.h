// Errors of the whole product: one hierarchy, each class carrying the exit code a process ends with
// when nobody handles it (docs/run-directory.md, "Faults and restarts"). IoError and CommError are
// recoverable: rankd may catch them and ask for a restart plan. Everything else ends the rank with
// its message.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace ds {

enum class ExitCode : int {
  kDone = 0,
  kTrainingFailed = 1,
  kUsage = 2,
  kBadData = 65,
  kInputMissing = 66,
  kClusterUnusable = 69,
  kInternal = 70,
  kStorage = 74,
  kRequeue = 75,
  kBelowMinimum = 76,
  kValidation = 77,
  kConfig = 78,
  kTimeout = 124,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

class InternalError : public Error {  // a broken invariant of ours
 public:
  explicit InternalError(const std::string& m) : Error(ExitCode::kInternal, m) {}
};
class UsageError : public Error {  // the command line
 public:
  explicit UsageError(const std::string& m) : Error(ExitCode::kUsage, m) {}
};
class ConfigError : public Error {  // train.json, or a combination of its keys
 public:
  explicit ConfigError(const std::string& m) : Error(ExitCode::kConfig, m) {}
};
class Unsupported : public Error {  // a feature this build or machine lacks; the message names it
 public:
  explicit Unsupported(const std::string& m) : Error(ExitCode::kConfig, m) {}
};
class DataError : public Error {  // an input file exists but its content is wrong
 public:
  explicit DataError(const std::string& m) : Error(ExitCode::kBadData, m) {}
};
class InputMissing : public Error {  // an input file does not exist or cannot be opened
 public:
  explicit InputMissing(const std::string& m) : Error(ExitCode::kInputMissing, m) {}
};
class IoError : public Error {  // reading or writing failed: disk full, EIO, short write
 public:
  explicit IoError(const std::string& m) : Error(ExitCode::kStorage, m) {}
};
class PeerIoError
    : public IoError {  // another rank's disk; this one gives up what they did together
 public:
  explicit PeerIoError(const std::string& m) : IoError(m) {}
};
class CommError : public Error {  // a peer died, hung or disagreed during a collective
 public:
  explicit CommError(const std::string& m) : Error(ExitCode::kTrainingFailed, m) {}
};
class ValidationError : public Error {  // NaN policy, corrupt checkpoint, mismatch between ranks
 public:
  explicit ValidationError(const std::string& m) : Error(ExitCode::kValidation, m) {}
};
class OutOfMemory : public Error {  // a memory resource refused; the message carries size and tag
 public:
  explicit OutOfMemory(const std::string& m) : Error(ExitCode::kTrainingFailed, m) {}
};

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const std::string& message);
}  // namespace detail

}  // namespace ds

// DS_CHECK(condition, "operation: what it got and what it expected", args...) for what a caller can
// get wrong. Throws InternalError with file and line.
#define DS_CHECK(condition, ...)                                                  \
  do {                                                                            \
    if (!(condition)) {                                                           \
      ::ds::detail::check_failed(__FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                             \
  } while (false)
