#include "model/stores/watched_store.h"

#include "model/pass/module_label.h"

namespace ds {

Lease WatchedStore::acquire(ParamId id) {
  Lease lease = store_.acquire(id);
  if (seen_.insert(id).second) {
    watch_.look(NumberKind::kWeight, module_label(store_, id), spec(id).name, lease.weight());
  }
  return lease;
}

GradSlot WatchedStore::grad_slot(ParamId id) {
  GradSlot slot = store_.grad_slot(id);
  writes_[id] = slot.grad;
  return slot;
}

void WatchedStore::grad_ready(ParamId id) {
  watch_.look(NumberKind::kParameterGradient, module_label(store_, id), spec(id).name,
              writes_.at(id));
  writes_.erase(id);  // first: the store gives its memory away when it is reduced
  store_.grad_ready(id);
}

}  // namespace ds
