// `dslaunch io`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct IoArgs {
  std::vector<std::string> folders;
  std::vector<std::string> folders_of_devices;  // "FOLDER:DEVICE"
  int64_t io_size = int64_t{400} << 20;         // bytes
  int64_t fast_io_size = 0;                     // bytes; 0: not given
  bool read = false;
  int workers = 1;  // --multi-process
  int64_t block_size = int64_t{1} << 20;
  int queue_depth = 32;
  bool single_submit = false;
  bool sequential_requests = false;
  bool validate = false;
  std::string engine = "auto";
  int loops = 3;
  int io_parallel = 1;
  bool gpu = false;
  bool use_gds = false;
  bool slow_bounce_buffer = false;
  bool use_accelerator_pin_memory = false;
  int warmup_loops = 1;
  bool include_warmup_time = false;
  bool different_file_each_iteration = false;
  bool json = false;
};

void describe_io(VerbApp& app, IoArgs& values);

}  // namespace ds
