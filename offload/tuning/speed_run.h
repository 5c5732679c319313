// SpeedRun: how fast tensors are written to folders and read from them with a setting. It writes
// files without a name, so whatever ends the process, nothing of them is left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device/stream.h"
#include "offload/async_io/choose_engine.h"
#include "offload/handles/tensor_io.h"
#include "offload/tuning/sweep.h"

namespace ds {

enum class Locking { kLocked, kPageable };  // of the tensors of the host

struct SpeedPlan {
  std::vector<std::string> folders;  // each has `workers` files of `io_bytes`
  int workers = 1;
  int64_t io_bytes = int64_t{400} << 20;
  int loops = 3;
  int warmups = 1;
  bool include_warmups = false;
  bool validate = false;
  bool flush_page_cache = false;  // of our files, before each read
  bool new_file_each_loop = false;
  Locking locking = Locking::kLocked;
  std::optional<EngineKind> engine = std::nullopt;  // none: the best of the machine
  Stream* stream = nullptr;                         // of a device whose tensors are moved
};

// Seconds of each loop that counts: of the transfers alone, and with all that is around them
// (opening files, reserving storage, making durable).
struct SpeedTimes {
  std::vector<double> task;
  std::vector<double> end_to_end;
};

class SpeedRun {
 public:
  // Makes the files and fills the tensors. InputMissing or IoError for a folder that is none;
  // DiskFull where it has too little room; OutOfMemory.
  explicit SpeedRun(const SpeedPlan& plan);
  ~SpeedRun();
  SpeedRun(const SpeedRun&) = delete;  // owns the files
  SpeedRun& operator=(const SpeedRun&) = delete;

  // Reading reads what was written last; of files that nothing was written to, what is written
  // then.
  SpeedTimes write(const IoSetting& setting);
  SpeedTimes read(const IoSetting& setting);

  int64_t bytes_per_loop() const;
  // What a person has to know to understand the figures: "tmpfs knows no O_DIRECT ...".
  const std::vector<std::string>& notes() const { return notes_; }
  const std::string& engine_name() const { return engine_name_; }

 private:
  struct Worker;
  enum class Way { kWrite, kRead };
  SpeedTimes move(const IoSetting& setting, Way way, int warmups, int loops);
  double move_once(const std::vector<std::unique_ptr<TensorIo>>& ios, Way way);
  EngineKind engine_for_all();
  void open_files();
  Tensor make_tensor(size_t number);
  void prepare(Way way);
  void note(const std::string& text);

  const SpeedPlan plan_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::string> notes_;
  EngineKind engine_ = EngineKind::kThreads;
  std::string engine_name_;
  bool is_written_ = false;
};

// Median of the bytes per second, 0 of no loops.
double speed_of(int64_t bytes, const std::vector<double>& seconds);

}  // namespace ds
