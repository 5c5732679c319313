// Work of the standard operations from their shapes (pure): floating-point operations and
// multiply-accumulates as DeepSpeed's flops profiler counts them, so that reports compare. A
// multiply-accumulate is two flops; activations, pooling and softmax one per input element; shapes
// are outermost first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ds::kernels {

struct Work {
  int64_t flops = 0;
  int64_t macs = 0;

  Work& operator+=(const Work& other) {
    flops += other.flops;
    macs += other.macs;
    return *this;
  }
  bool operator==(const Work&) const = default;
};

using Dims = std::span<const int64_t>;
int64_t numel(Dims shape);

// x [..., in] times a weight [out, in]; the bias is not counted.
Work linear_work(Dims x, int64_t out);
// a [..., k] times b [..., k, n]; addmm also adds `added` elements.
Work matmul_work(Dims a, Dims b);
Work addmm_work(Dims added, Dims a, Dims b);
// Both products of softmax(q k^T) v: q [..., t, d], k [..., s, d], v [..., s, e].
Work attention_work(Dims q, Dims k, Dims v);
// Elements of the broadcast result; an empty shape is a scalar.
Work broadcast_work(Dims a, Dims b);
Work per_element_work(Dims x, int64_t flops_per_element);

struct ConvShape {
  std::vector<int64_t> kernel, stride, padding, dilation;  // one per spatial axis
  int64_t in = 1, out = 1, groups = 1;
};
enum class Bias { kNo, kYes };
// Spatial output sizes: (size + 2 padding - (dilation (kernel - 1) + 1)) / stride + 1.
std::vector<int64_t> conv_output(Dims spatial, const ConvShape& conv);
// (size - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding.
std::vector<int64_t> transposed_output(Dims spatial, const ConvShape& conv,
                                       Dims output_padding = {});
// x [batch, in, spatial...]: macs = kernel * in * (out / groups) * batch * output positions; the
// bias adds one flop per output.
Work conv_work(Dims x, const ConvShape& conv, Bias bias);
// The same over input positions. The bias is counted by conv_output's formula, rounded down, which
// is what the reference does although a transposed convolution has more positions.
Work transposed_conv_work(Dims x, const ConvShape& conv, Bias bias);

// If there is a size, this is the product of the sizes, else elements of x times the scale per
// spatial axis (one number, or one per axis), rounded down. Throws ConfigError when neither is
// given.
Work interpolate_work(Dims x, std::span<const int64_t> size, std::span<const double> scale);

// One or two operands: the product of all index sizes, twice that when an index is summed away,
// plus 1; no macs. Throws ConfigError when the equation does not fit the shapes, Unsupported for
// more operands.
Work einsum_work(std::string_view equation, std::span<const std::vector<int64_t>> shapes);

enum class Recurrent { kRnn, kGru, kLstm };
struct RecurrentShape {
  Recurrent kind = Recurrent::kRnn;
  int64_t in = 1, hidden = 1, layers = 1;
  Bias bias = Bias::kYes;
  int64_t directions = 1;  // 1 or 2
};
// Per layer and position: 2 * rows * columns - rows for both matrices of the first direction,
// hidden
// * 1 (RNN), 7 (GRU) or 10 (LSTM), both biases; times positions (batch * sequence) and directions.
Work recurrent_work(int64_t positions, const RecurrentShape& shape);
int64_t recurrent_parameters(const RecurrentShape& shape);

}  // namespace ds::kernels
