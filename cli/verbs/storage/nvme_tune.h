// `dslaunch nvme-tune`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct NvmeTuneArgs {
  std::vector<std::string> folders;
  std::string sweep_config;
  bool no_read = false;
  bool no_write = false;
  int64_t io_size = int64_t{400} << 20;  // bytes
  bool gpu = false;
  bool gds = false;
  bool flush_page_cache = false;
  std::string log_dir = "_aio_bench_logs";
  int loops = 3;
  bool exhaustive = false;
  bool verbose = false;
  bool json = false;
};

void describe_nvme_tune(VerbApp& app, NvmeTuneArgs& values);

}  // namespace ds
