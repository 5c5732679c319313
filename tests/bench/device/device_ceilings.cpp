// What a device can do at most, as one JSON object: a copy within its memory, a large product of
// bf16, and copies from and to pinned memory of the host. --tiny: that it runs, and no figure to
// be used.
#include "core/cuda/memory.h"
#include "tests/bench/device/bench_device.h"

namespace ds::bench {
namespace {

// Bytes per second between the host and the device, both ways; nothing on the CPU.
std::string link_figures(BenchDevice& on, size_t bytes, const Duration& duration) {
  if (on.stream.device() == Device::cpu()) return "";
  const std::unique_ptr<MemoryResource> pinned = make_pinned_memory(bytes);
  Stream& stream = on.stream;
  void* const host = pinned->allocate(bytes, MemoryTag::kScratch);
  const Tensor there = Tensor::zeros({static_cast<int64_t>(bytes)}, DType::kI8, stream);
  const auto rate = [&](const void* from, void* to) {
    const double seconds = seconds_of(
        stream, [&] { stream.copy(from, to, bytes); }, duration);
    return 1e-9 * static_cast<double>(bytes) / seconds;
  };
  const double to_device = rate(host, there.address());
  const double to_host = rate(there.address(), host);
  pinned->deallocate(host, bytes, MemoryTag::kScratch);
  return fmt::format(", \"h2d_gb_s\": {:.3f}, \"d2h_gb_s\": {:.3f}", to_device, to_host);
}

void run(const DeviceArgs& args) {
  const CeilingSizes sizes = args.tiny ? kTinyCeilings : CeilingSizes{};
  const Duration duration = args.tiny ? kOnce : Duration{.least_seconds = 0.1, .rounds = 5};
  const size_t link_bytes = args.tiny ? size_t{1} << 16 : size_t{256} << 20;
  BenchDevice on(args.device, bytes_of(sizes) + link_bytes);
  const Ceilings ceilings = measure_ceilings(on.stream, sizes, duration);
  const std::string link = link_figures(on, link_bytes, duration);
  fmt::print("{{\"device\": \"{}\", \"copy_gb_s\": {:.3f}, \"product_tflop_s\": {:.6f}{}}}\n",
             on.name, 1e-9 * ceilings.bytes_per_s, 1e-12 * ceilings.flops_per_s, link);
}

}  // namespace
}  // namespace ds::bench

int main(int argc, char** argv) {
  return ds::bench::device_program(
      {.name = "device_ceilings", .about = "What a device can do at most"}, argc, argv,
      ds::bench::run);
}
