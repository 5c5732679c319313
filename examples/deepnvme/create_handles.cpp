// Creating DeepNVMe handles: with the defaults, and what they are.
#include "examples/deepnvme/example.h"
#include "offload/handles/io_handle.h"

int main(int argc, char** argv) {
  return ds::example::run(argc, argv, [](const ds::example::Place&) {
    const ds::AioHandle h;
    fmt::print(
        "block_size {}, queue_depth {}, single_submit {}, overlap_events {}, "
        "intra_op_parallelism {}\n",
        h.block_size(), h.queue_depth(), h.single_submit(), h.overlap_events(),
        h.intra_op_parallelism());
    ds::example::expect(h.block_size() == 1048576 && h.queue_depth() == 128 && !h.single_submit() &&
                            !h.overlap_events() && h.intra_op_parallelism() == 1,
                        "the defaults of the tutorial");
    ds::example::Host host;
    try {
      const ds::GdsHandle gds({}, host.stream);
      fmt::print("a gds handle, too\n");
    } catch (const ds::Unsupported& missing) {
      fmt::print("no gds handle: {}\n", missing.what());
    }
  });
}
