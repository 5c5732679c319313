#include "generate/stage_pipeline.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {
namespace {

// A StageOrder on its way; length 0 says that there are no more.
constexpr int64_t kWords = 5;

void send_order(Communicator& pipe, Stream& stream, const StageOrder& order) {
  Tensor words = Tensor::empty({kWords}, DType::kI64, stream);
  const std::array<int64_t, kWords> values{order.slot, order.fresh ? 1 : 0, order.length,
                                           order.prompt, order.drawn};
  std::ranges::copy(values, words.data<int64_t>());
  pipe.send(words, pipe.rank() + 1, stream);
}

StageOrder receive_order(Communicator& pipe, Stream& stream) {
  Tensor words = Tensor::empty({kWords}, DType::kI64, stream);
  pipe.recv(words, pipe.rank() - 1, stream);
  const int64_t* const values = words.data<int64_t>();
  return {.slot = narrow<int>(values[0]),
          .fresh = values[1] != 0,
          .length = values[2],
          .prompt = values[3],
          .drawn = values[4]};
}

bool is_last(const Communicator& pipe) { return pipe.rank() == pipe.size() - 1; }

}  // namespace

void serve_stage(StageSteps& steps, Communicator& pipe, const std::function<void()>& progress) {
  Stream& stream = steps.stream();
  for (;;) {
    const StageOrder order = receive_order(pipe, stream);
    if (order.length == 0) {
      if (!is_last(pipe)) send_order(pipe, stream, order);
      return;
    }
    Tensor boundary = steps.empty_boundary(order.length);
    pipe.recv(boundary, pipe.rank() - 1, stream);
    DS_FAILPOINT("generate.boundary_received");
    if (is_last(pipe)) {
      Tensor token = Tensor::empty({1}, DType::kI32, stream);
      *token.data<int32_t>() = steps.draw(order, std::move(boundary));
      pipe.send(token, 0, stream);
      DS_FAILPOINT("generate.token_sent");
    } else {
      const Tensor out = steps.forward(order, std::move(boundary));
      send_order(pipe, stream, order);
      pipe.send(out, pipe.rank() + 1, stream);
    }
    progress();
  }
}

// A send may wait for its receiver. With one request less under way than there are stages behind
// us, the next stage will be ready to receive without our taking a token meanwhile.
void FirstStage::ask(const TokenRequest& request) {
  const StageOrder order = order_of(request);
  const Tensor out = steps_.forward(order, steps_.uploaded(request.tokens));
  if (under_way_ == pipe_.size() - 1) answers_.push_back(receive());
  send_order(pipe_, steps_.stream(), order);
  pipe_.send(out, 1, steps_.stream());
  ++under_way_;
  DS_FAILPOINT("generate.asked");
}

int32_t FirstStage::answer() {
  if (answers_.empty()) return receive();
  const int32_t token = answers_.front();
  answers_.pop_front();
  return token;
}

int32_t FirstStage::receive() {
  Tensor token = Tensor::empty({1}, DType::kI32, steps_.stream());
  pipe_.recv(token, pipe_.size() - 1, steps_.stream());
  --under_way_;
  return *token.data<int32_t>();
}

void FirstStage::end() { send_order(pipe_, steps_.stream(), {}); }

}  // namespace ds
