#include "cli/verbs/storage/io.h"

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"
#include "core/status/error.h"

namespace ds {
namespace {

void describe_requests(VerbApp& app, IoArgs& values) {
  add_bytes(app, "--block-size,--block_size", values.block_size, "Bytes of each request: 128K, 1M")
      ->default_str("1M");
  app.add_option("--queue-depth,--queue_depth", values.queue_depth,
                 "Requests under way at once, of each thread")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--io-parallel,--io_parallel", values.io_parallel,
                 "Threads that share each tensor")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--single-submit,--single_submit", values.single_submit,
               "Submit each request by a call of its own");
  app.add_flag("--sequential-requests,--sequential_requests", values.sequential_requests,
               "Begin the next requests when all are done, not when one is");
  app.add_option("--engine", values.engine, "Who moves the bytes: auto takes the best there is")
      ->check(choice_check({"auto", "uring", "aio", "threads", "gds", "aio_handle", "aio_basic",
                            "torch_io", "torch_fastio"}))
      ->capture_default_str();
  add_bytes(app, "--fast-io-size,--fast_io_size", values.fast_io_size,
            "Buffer of torch_fastio, which there is not here");
}

void describe_devices_of_io(VerbApp& app, IoArgs& values) {
  const char* const group = "Devices";
  app.add_flag("--gpu", values.gpu, "The tensor is on a GPU")->group(group);
  app.add_flag("--use-gds,--use_gds", values.use_gds,
               "Between GPU and disk without the host (GPUDirect Storage)")
      ->group(group);
  app.add_flag("--slow-bounce-buffer,--slow_bounce_buffer", values.slow_bounce_buffer,
               "Tensors of a GPU pass through memory that is not pinned")
      ->group(group);
  app.add_flag("--use-accelerator-pin-memory,--use_accelerator_pin_memory",
               values.use_accelerator_pin_memory, "Memory of the host is pinned by CUDA")
      ->group(group);
}

void describe_loops(VerbApp& app, IoArgs& values) {
  app.add_option("--loops", values.loops, "How often, of which the median counts")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--warmup-loops,--warmup_loops", values.warmup_loops, "Loops before these")
      ->check(whole_check(0, 1 << 16))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--include-warmup-time,--include_warmup_time", values.include_warmup_time,
               "The loops before count, too");
  app.add_flag("--different-file-each-iteration,--different_file_each_iteration",
               values.different_file_each_iteration, "Write a new file in each loop");
}

}  // namespace

void describe_io(VerbApp& app, IoArgs& values) {
  app.add_option("--folder", values.folders, "Where the files go: a folder on the disk to measure")
      ->type_name("DIR");
  app.add_option("--folder-to-device-mapping,--folder_to_device_mapping", values.folders_of_devices,
                 "Folders, each with the GPU whose tensor goes there")
      ->type_name("DIR:GPU");
  add_bytes(app, "--io-size,--io_size", values.io_size, "Bytes of each tensor: 400M, 1G")
      ->default_str("400M");
  app.add_flag("--read", values.read, "Measure reading; without it, writing");
  app.add_option("--multi-process,--multi_process", values.workers,
                 "Files at once in each folder, with a queue of its own each")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  describe_requests(app, values);
  describe_loops(app, values);
  app.add_flag("--validate", values.validate,
               "Compare the file with the tensor, within the time that is measured");
  describe_devices_of_io(app, values);
  app.add_flag("--json", values.json, "The figures as one object");
  app.footer(
      "Takes the options of ds_io. The files have no name: nothing is left of them, whatever ends "
      "it.\n"
      "\n"
      "Examples:\n"
      "  dslaunch io --folder . --io-size 16M\n"
      "  dslaunch io --folder . --io-size 16M --read --io-parallel 2 --block-size 128K\n"
      "  dslaunch io --folder . --io-size 16M --engine threads --validate --json");
  app.final_callback([&values] {
    if (values.folders.empty() && values.folders_of_devices.empty())
      throw UsageError("--folder is required");
    if (!values.folders.empty() && !values.folders_of_devices.empty())
      throw UsageError("--folder excludes --folder-to-device-mapping");
  });
}

}  // namespace ds
