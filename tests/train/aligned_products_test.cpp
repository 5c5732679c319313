// How the operands of products lie that a step of the emulated device makes. A GPU's library has
// its fast products for those that begin at 16 bytes and whose rows do, whatever the vocabulary.
#include <cstdio>
#include <set>

#include "kernels/matmul/emulated_product.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;
using kernels::detail::Gemm;
using kernels::detail::GemmOperand;

constexpr size_t kBorder = 16;  // bytes
constexpr int64_t kOfRows = 8;  // elements of 16 bits that have these
constexpr int64_t kSequences = 2, kLength = 16;

struct Seen {
  int products = 0;
  std::set<int64_t> strides;
  std::vector<std::string> misaligned;
};

void look_at(const Gemm& product, Seen& seen) {
  ++seen.products;
  const auto look = [&](const char* name, const GemmOperand& operand) {
    seen.strides.insert(operand.row_stride);
    const bool begins = reinterpret_cast<uintptr_t>(operand.data) % kBorder == 0;
    if (begins && operand.row_stride % kOfRows == 0) return;
    seen.misaligned.push_back(
        fmt::format("{} of {} x {} x {}: begins at a border {}, rows {} apart", name, product.m,
                    product.n, product.k, begins, operand.row_stride));
  };
  look("a", product.a);
  look("b", product.b);
  look("c", product.c);
}

Seen products_of_a_step(const ModelConfig& model, int stage) {
  const Setting setting{.stage = stage,
                        .dtype = DType::kBF16,
                        .global_batch = kSequences,
                        .host_access = HostAccess::kNever,
                        .devices = Devices::kOwn};
  EngineOptions options = options_of(setting);
  options.model = model;
  options.length = kLength;
  Seen seen;
  const emulated::ProductWatch watch([&](const Gemm& product) { look_at(product, seen); });
  MemoryFileSystem disk;
  const Outcome outcome = train(setting, options, disk, 1);
  CHECK(outcome.losses.size() == 1);
  return seen;
}

// Both vocabularies are odd.
TEST_CASE("all products of a step have operands that begin at borders, row by row", "[.][cuda]") {
  if (test_device().device == Device::cpu()) {
    std::puts("skipped: --device names no device");
    return;
  }
  const int stage = GENERATE(0, 3);
  CAPTURE(stage);
  const Seen gpt2 = products_of_a_step(
      Gpt2Config{
          .n_layer = 1, .n_head = 2, .n_embd = 16, .n_positions = kLength, .vocab_size = 50257},
      stage);
  CHECK(gpt2.misaligned == std::vector<std::string>{});
  CHECK(gpt2.strides.contains(50304));
  CHECK(gpt2.products >=
        3 * 5);  // a layer has four matrices and the head one, each with two gradients
  const Seen llama = products_of_a_step(LlamaConfig{.num_hidden_layers = 1,
                                                    .num_attention_heads = 2,
                                                    .num_key_value_heads = 1,
                                                    .hidden_size = 16,
                                                    .intermediate_size = 48,
                                                    .vocab_size = 32003},
                                        stage);
  CHECK(llama.misaligned == std::vector<std::string>{});
  CHECK(llama.strides.contains(32064));
  CHECK(llama.products >= 3 * 5);
}

}  // namespace
}  // namespace ds
