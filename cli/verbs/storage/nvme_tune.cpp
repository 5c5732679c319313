#include "cli/verbs/storage/nvme_tune.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"
#include "core/status/error.h"

namespace ds {

void describe_nvme_tune(VerbApp& app, NvmeTuneArgs& values) {
  app.add_option("--nvme-dir,--nvme_dir", values.folders,
                 "Folders on the disks to tune for, which are measured together")
      ->type_name("DIR")
      ->required();
  app.add_option("--sweep-config,--sweep_config", values.sweep_config,
                 "JSON with the values to try: block_size, queue_depth, sequential_requests, "
                 "single_submit, io_parallel; a list each")
      ->type_name("FILE");
  app.add_flag("--no-read,--no_read", values.no_read, "Do not measure reading");
  app.add_flag("--no-write,--no_write", values.no_write, "Do not measure writing");
  add_bytes(app, "--io-size,--io_size", values.io_size, "Bytes moved by each measurement")
      ->default_str("400M");
  app.add_option("--loops", values.loops,
                 "Measurements of each setting, of which the median counts")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--gpu", values.gpu, "Between the disks and a GPU");
  app.add_flag("--gds", values.gds, "The same without the host (GPUDirect Storage)");
  app.add_flag("--flush-page-cache,--flush_page_cache", values.flush_page_cache,
               "Drop our files from the page cache before each reading");
  app.add_option("--log-dir,--log_dir", values.log_dir,
                 "Where results.json and speeds.svg go; empty: nowhere")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--exhaustive", values.exhaustive, "Try every setting, not the quarter that leads");
  app.add_flag("--verbose", values.verbose, "Each loop, not only the median");
  app.add_flag("--json", values.json, "The figures and the aio section as one object");
  app.footer(
      "Finds the aio section of train.json with which files of these folders are written and read\n"
      "fastest. Takes the options of ds_nvme_tune. Its files have no name, so nothing is left of\n"
      "them; the logs are written at the end.\n"
      "\n"
      "Examples:\n"
      "  dslaunch nvme-tune --nvme-dir . --io-size 8M\n"
      "  dslaunch nvme-tune --nvme-dir . --io-size 8M --no-write --loops 1 --json");
  app.final_callback([&values] {
    if (values.no_read && values.no_write)
      throw UsageError("--no-read and --no-write leave nothing to measure");
  });
}

}  // namespace ds
