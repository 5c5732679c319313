// RowSink: gradients of tables of which other ranks are sent only the rows that are touched, with
// whole state on the device. All ranks have the whole sums after each micro-step.
#pragma once

#include <memory>
#include <vector>

#include "zero/reduce/bucket_sink.h"
#include "zero/reduce/gradient_wire.h"
#include "zero/reduce/row_exchange.h"

namespace ds {

// How rows travel: who exchanges them, and what rounds the sums as if they had been sent.
struct RowWire {
  std::unique_ptr<GradientWire> wire;
  RowExchange exchange;
  int64_t columns = 0;
};

class RowSink final : public SendingSink {
 public:
  // wholes: where the sums of whole buckets are kept, which may be where gradients are written.
  // params: how many there are.
  RowSink(SinkParts parts, RowWire rows, std::vector<Tensor> wholes, size_t params);

  void rows_touched(int param, const Tensor& order) override;
  Tensor gradient(int bucket) const override { return nth(wholes_, bucket); }
  void add_sum_of_squares(const Tensor& total) override { add_squares(slices_, total); }

 protected:
  void send(int bucket) override;
  void finish(int bucket) override { rows_.wire->round_as_sent(nth(wholes_, bucket)); }

 private:
  RowWire rows_;
  const std::vector<Tensor> wholes_;
  std::vector<Tensor> slices_;   // this rank's of those
  std::vector<Tensor> touched_;  // of each parameter, from rows_touched() on
};

}  // namespace ds
