// Which kernel computes attention, and the addresses that cuDNN is told of its operands.
#include "kernels/attention/attention_choice.h"

#include <cmath>

#include "kernels/attention/attention_layout.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using Catch::Contains;
using namespace reference;
using detail::AttentionLayout;
using detail::HeadTensor;

// Nothing speaks against cuDNN.
AttentionFacts good_facts() {
  return {.cudnn_version = 91900, .capability = 90, .dtype = DType::kBF16, .head_dim = 128};
}

std::string why_own(const AttentionFacts& facts) {
  const AttentionChoice choice = choose_attention_kernel(facts);
  REQUIRE(choice.kind == AttentionKind::kFlash);
  return choice.why;
}

// Element {b, h, t, d} of an operand whose values these are.
double element(const Values& operand, const HeadTensor& at, int64_t b, int64_t h, int64_t t,
               int64_t d) {
  return operand.at(static_cast<size_t>(at.offset + b * at.strides[0] + h * at.strides[1] +
                                        t * at.strides[2] + d * at.strides[3]));
}

double score(const Values& qkv, const AttentionLayout& at, const AttentionShape& s, int64_t b,
             int64_t h, int64_t t, int64_t key) {
  double sum = 0;
  for (int64_t d = 0; d < s.head_dim; ++d) {
    sum += element(qkv, at.queries, b, h, t, d) *
           element(qkv, at.keys, b, h / (s.heads / s.kv_heads), key, d);
  }
  return sum / std::sqrt(static_cast<double>(s.head_dim));
}

}  // namespace

TEST_CASE("rules of attention reach a plan for a GPU as they reach the GPU", "[kernels]") {
  MetaMemory memory;
  const auto is_deterministic = [&](Device stands_for) {
    Stream stream({.device = Device::meta(), .memory = &memory, .stands_for = stands_for});
    set_attention_rules(stream, {.deterministic = false});
    return stream.state<AttentionRules>().deterministic;
  };
  CHECK_FALSE(is_deterministic(Device::cuda(0)));
  CHECK(is_deterministic(Device::cpu()));
}

TEST_CASE("cuDNN computes attention where nothing speaks against it", "[kernels]") {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int capability : {80, 90, 100, 120}) {
      AttentionFacts facts = good_facts();
      facts.dtype = dtype;
      facts.capability = capability;
      facts.scratch_bytes = kMostCudnnScratch;
      const AttentionChoice choice = choose_attention_kernel(facts);
      CHECK(choice.kind == AttentionKind::kCudnn);
      CHECK(choice.why == "cuDNN 9.19.0");
    }
  }
}

TEST_CASE("what speaks against cuDNN is told with the value that does", "[kernels]") {
  AttentionFacts facts = good_facts();
  facts.no_cudnn = "cuDNN could not be opened";
  CHECK(why_own(facts) == "cuDNN could not be opened");
  facts = good_facts();
  facts.cudnn_version = kLeastCudnn - 1;
  CHECK_THAT(why_own(facts), Contains("cuDNN 9.18.0 is older than 9.18.1"));
  facts = good_facts();
  facts.capability = 75;
  CHECK_THAT(why_own(facts), Contains("this is sm_75"));
  facts = good_facts();
  facts.dtype = DType::kF32;
  CHECK_THAT(why_own(facts), Contains("this is fp32"));
  facts = good_facts();
  facts.is_plain = false;
  CHECK_THAT(why_own(facts), Contains("cuDNN is asked for causal attention alone"));
  facts = good_facts();
  facts.dropout = 0.1F;
  CHECK_THAT(why_own(facts), Contains("mask of dropout"));
  facts = good_facts();
  facts.head_dim = 100;
  CHECK_THAT(why_own(facts), Contains("these have 100"));
  facts = good_facts();
  facts.aligned = false;
  CHECK_THAT(why_own(facts), Contains("multiples of 16 bytes"));
  facts = good_facts();
  facts.refusal = "no engine";
  CHECK(why_own(facts) == "cuDNN refuses: no engine");
  facts = good_facts();
  facts.scratch_bytes = int64_t{4} << 30;
  CHECK_THAT(why_own(facts), Contains("4096 MiB of scratch, more than 1024"));
  facts.device_bytes = int64_t{24} << 30;
  CHECK_THAT(why_own(facts), Contains("4096 MiB of scratch, more than 1536"));
  facts.device_bytes = int64_t{8} << 30;
  CHECK_THAT(why_own(facts), Contains("4096 MiB of scratch, more than 1024"));
  facts.device_bytes = int64_t{140} << 30;
  CHECK(choose_attention_kernel(facts).kind == AttentionKind::kCudnn);
}

TEST_CASE("a refusal of the first call is told from one of the plan", "[kernels]") {
  AttentionFacts facts = good_facts();
  facts.refusal = "libcudart.so.13 is missing";
  facts.was_called = true;
  CHECK(why_own(facts) == "cuDNN refuses at its first call: libcudart.so.13 is missing");
}

TEST_CASE("kernels of attention are told once where both passes have the same", "[kernels]") {
  const AttentionChoice cudnn = choose_attention_kernel(good_facts());
  const AttentionChoice own{AttentionKind::kFlash, "cuDNN refuses"};
  CHECK(to_text({.forward = cudnn, .backward = cudnn}) == "attention: cuDNN 9.19.0");
  CHECK(to_text({.forward = own, .backward = own}) ==
        "attention: own flash kernel, because cuDNN refuses");
  CHECK(to_text({.forward = cudnn, .backward = own}) ==
        "attention: forward cuDNN 9.19.0; backward own flash kernel, because cuDNN refuses");
  AttentionFacts facts = good_facts();
  facts.deterministic = false;  // a choice of the backward pass alone
  CHECK(choose_attention_kernel(facts).why == cudnn.why);
  facts.pass = AttentionPass::kBackward;
  CHECK(to_text({.forward = cudnn, .backward = choose_attention_kernel(facts)}) ==
        "attention: forward cuDNN 9.19.0; backward cuDNN 9.19.0 (not deterministic)");
}

TEST_CASE("a stream says which kernels it has for attention, and what they allocate",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{2, 100, 4, 2, 64};
  const auto kernels = attention_kernels(s.stream, {shape}, DType::kF32, 0, {});
  REQUIRE(kernels.has_value() == (s.stream.device().kind == Device::Kind::kCuda));
  if (!kernels) return;
  CHECK(kernels->forward.kind == AttentionKind::kFlash);  // in fp32
  CHECK(!kernels->forward.why.empty());
  CHECK(kernels->scratch_forward == 0);
  CHECK(kernels->scratch_backward == 2 * 4 * 100 * 4);
  const auto dropping = attention_kernels(s.stream, {shape}, DType::kF32, 0.1F, {}).value();
  CHECK(dropping.scratch_forward == 2 * 16);  // 16 bytes of each sample
  CHECK(dropping.scratch_backward == 2 * 4 * 100 * 4 + 2 * 16);
}

// The formula of attention over the elements that cuDNN is told to read gives, where it is told to
// write, what our kernels write.
TEST_CASE("what cuDNN is told of operands is where they lie", "[kernels]") {
  TestStream s;
  for (const AttentionShape& shape : {AttentionShape{2, 5, 4, 2, 8}, AttentionShape{3, 4, 3, 1, 16},
                                      AttentionShape{1, 1, 2, 2, 8}}) {
    const int64_t rows = shape.batch * shape.length;
    const Tensor qkv = random_tensor({rows, shape.packed()}, DType::kF32, 1, s.stream);
    Tensor y = Tensor::empty({rows, shape.heads * shape.head_dim}, DType::kF32, s.stream);
    Tensor lse = Tensor::empty({shape.batch, shape.heads, shape.length}, DType::kF32, s.stream);
    attention_forward(s.stream, {shape}, qkv, y, lse);
    const Values in = values_of(qkv), out = values_of(y), logs = values_of(lse);
    const AttentionLayout at = detail::layout_of(shape);
    CHECK(at.keys.dims[1] == shape.kv_heads);
    CHECK(at.values.dims[1] == shape.kv_heads);
    const int64_t group = shape.heads / shape.kv_heads;
    for (int64_t b = 0; b < at.outputs.dims[0]; ++b) {
      for (int64_t h = 0; h < at.outputs.dims[1]; ++h) {
        for (int64_t t = 0; t < at.outputs.dims[2]; ++t) {
          double total = 0;
          Values mean(static_cast<size_t>(shape.head_dim));
          for (int64_t key = 0; key <= t; ++key) {
            const double weight = std::exp(score(in, at, shape, b, h, t, key));
            total += weight;
            for (int64_t d = 0; d < shape.head_dim; ++d) {
              mean[static_cast<size_t>(d)] += weight * element(in, at.values, b, h / group, key, d);
            }
          }
          // Statistics are natural logarithms.
          REQUIRE(element(logs, at.log_sum_exp, b, h, t, 0) ==
                  Approx(std::log(total)).margin(1e-5));
          for (int64_t d = 0; d < shape.head_dim; ++d) {
            REQUIRE(element(out, at.outputs, b, h, t, d) ==
                    Approx(mean[static_cast<size_t>(d)] / total).margin(1e-5));
          }
        }
      }
    }
  }
}

}  // namespace ds::kernels
