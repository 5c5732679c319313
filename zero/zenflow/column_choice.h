// ColumnChoice: which columns of each matrix are important, and how far the interval between two
// updates of the rest has come (schedule.h). A run chooses by the squares of gradients; the dry run
// has a twin that stands in the middle of any run: columns are chosen, whichever they are. Confined
// to one thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "optim/optimizer.h"
#include "zero/zenflow/column_sums.h"
#include "zero/zenflow/important_part.h"
#include "zero/zenflow/schedule.h"

namespace ds {

class ColumnChoice {
 public:
  // matrices: as ColumnSums has them, which outlive it.
  ColumnChoice(const ZenflowOptions& options, std::span<const ZenflowMatrix> matrices);
  virtual ~ColumnChoice() = default;
  ColumnChoice(const ColumnChoice&) = delete;  // has a state of the run
  ColumnChoice& operator=(const ColumnChoice&) = delete;

  // The number of the update to come, from 1; whether columns are chosen in it, and by which
  // squares, and whether the interval ends with it whatever gradients are.
  int64_t next() const { return updates_ + 1; }
  bool warms_up() const { return ds::warms_up(options_, next()); }
  bool selects() const { return !warms_up() && (!has_columns_ || selects_at(options_, next())); }
  bool needs_squares() const { return !warms_up() && (selects() || !options_.update_every); }
  bool has_columns() const { return has_columns_; }
  int64_t waiting() const { return waiting_; }  // updates whose gradients wait in the sums

  // `number`: what the optimizer says of the update.
  virtual void begin_update(int64_t number) = 0;
  void end_update() { ++updates_; }

  // Chooses by the squares of all ranks' gradients.
  virtual void choose(const ColumnSums& sums, std::span<const double> squares) = 0;
  virtual void forget() = 0;  // in updates of everything nothing is important
  // Says which elements of the part are important.
  virtual void place(ImportantPart& part) const = 0;

  // Counts an update into the interval, with gradients times `scale`.
  virtual void add(float scale, const ColumnSums& sums, std::span<const double> squares) = 0;
  bool ends_interval() const { return ds::ends_interval(options_, next()) || is_due(); }
  virtual void end_interval() = 0;

  // It as rows of numbers, one for each matrix, with the same on all ranks. What reads returns
  // whether columns are chosen by that.
  std::vector<AuxiliarySpec> auxiliary(const char* name) const;
  virtual void write(std::span<const Tensor> auxiliary, Stream& stream) const = 0;
  virtual bool read(std::span<const Tensor> auxiliary, Stream& stream) = 0;

 protected:
  virtual bool is_due() const = 0;

  const ZenflowOptions options_;
  const std::span<const ZenflowMatrix> matrices_;
  int64_t updates_ = 0;
  int64_t waiting_ = 0;
  bool has_columns_ = false;
};

// That of a run, or on meta its twin.
std::unique_ptr<ColumnChoice> make_column_choice(const ZenflowOptions& options,
                                                 std::span<const ZenflowMatrix> matrices,
                                                 const Stream& stream);

}  // namespace ds
