// Reading the weights of a pytorch_model.bin, their checksums compared, against plain reads of the
// same file into the same memory; both by one thread, out of the page cache, interleaved, medians
// of the rounds. The memory was touched before.
// usage: torch_read_bench [MiB, default 1024] [rounds, default 5] [folder, default .]
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/torch/torch_writer.h"
#include "model/hf/weight_folder.h"
#include "tests/bench/median.h"

namespace {

using namespace ds;
using ds::bench::median;

constexpr int64_t kTensorNumel = int64_t{4096} * 4096;  // 64 MiB, as in a model of 7 billion
constexpr size_t kRequest = size_t{8} << 20;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void write_weights(FileSystem& files, const std::string& path, int64_t tensors) {
  std::vector<float> values(kTensorNumel);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191) * 1e-3F;
  TorchItem::Dict root;
  for (int64_t i = 0; i < tensors; ++i) {
    root.emplace_back(fmt::format("layer.{}.weight", i),
                      TorchItem::Elements{DType::kF32, {4096, 4096}});
  }
  write_torch_file(files, path, root, [&](size_t) { return std::as_bytes(std::span(values)); });
}

void read_plain(const std::string& path, std::span<std::byte> into) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (int64_t at = 0; at < size;) {
    const size_t place = static_cast<size_t>(at) % into.size();
    const size_t count = std::min({kRequest, into.size() - place, static_cast<size_t>(size - at)});
    read_fully(file.get(), at, into.subspan(place, count), path);
    at += static_cast<int64_t>(count);
  }
}

void read_weights(FileSystem& files, const std::string& folder, std::span<std::byte> into) {
  const WeightFolder weights = WeightFolder::open(files, folder);
  for (const std::string& name : weights.names()) weights.read_part(name, 0, into);
}

int run(int64_t mebibytes, int rounds, const std::string& place) {
  RealFileSystem files;
  const std::string folder = place + "/torch_read_bench";
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/pytorch_model.bin";
  constexpr int64_t kTensorBytes = kTensorNumel * static_cast<int64_t>(sizeof(float));
  write_weights(files, path, std::max<int64_t>(1, (mebibytes << 20) / kTensorBytes));
  std::vector<std::byte> memory(kTensorBytes, std::byte{1});
  read_plain(path, memory);
  std::vector<double> plain, ours;
  for (int round = 0; round < rounds; ++round) {
    plain.push_back(seconds_of([&] { read_plain(path, memory); }));
    ours.push_back(seconds_of([&] { read_weights(files, folder, memory); }));
  }
  const double gigabytes = static_cast<double>(std::filesystem::file_size(path)) * 1e-9;
  std::filesystem::remove_all(folder);
  fmt::print("plain    {:6.2f} GB/s\nweights  {:6.2f} GB/s\nratio    {:6.2f}\n",
             gigabytes / median(plain), gigabytes / median(ours), median(plain) / median(ours));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t mebibytes = argc > 1 ? std::atoll(argv[1]) : 1024;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (mebibytes < 1 || rounds < 1) return 2;
  try {
    return run(mebibytes, rounds, argc > 3 ? argv[3] : ".");
  } catch (const Error& error) {
    fmt::print(stderr, "torch_read_bench: {}\n", error.what());
    return 1;
  }
}
