#include "model/exchange/sinks.h"

#include "kernels/attention/attention_sink.h"
#include "kernels/reduce/reduce.h"

namespace ds {

void apply_sinks(const Context& context, const kernels::AttentionShape& shape, ParamId sinks,
                 Tensor& y, Tensor& log_sum_exp) {
  if (sinks == kNoParam) return;
  const Lease lease = context.store->acquire(sinks);
  kernels::add_sinks(context.stream, shape, lease.weight(), y, log_sum_exp);
}

void give_sink_gradient(Stream& stream, ParameterStore& store, const kernels::AttentionShape& shape,
                        ParamId sinks, const SinkRows& rows) {
  if (!store.trains(sinks)) return;
  const Lease lease = store.acquire(sinks);
  Tensor terms = Tensor::empty({shape.batch * shape.length, shape.heads}, DType::kF32, stream);
  kernels::sink_terms(stream, shape, lease.weight(), rows.log_sum_exp, rows.delta, terms);
  GradSlot slot = store.grad_slot(sinks);
  kernels::column_sum(stream, terms, slot.write, slot.grad);
  store.grad_ready(sinks);
}

}  // namespace ds
