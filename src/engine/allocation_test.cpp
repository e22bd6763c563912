// In a file of its own: it replaces the allocation functions of the whole test program. Who allocates is told
// from the return address: calls from oneDNN's library (its own fixed bookkeeping of each call) are counted
// apart from all others. Sanitizers replace the same functions, so this test does not exist there.
#if defined(__has_feature)  // as clang says it
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COHORT_IS_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COHORT_IS_SANITIZED
#endif
#if !defined(COHORT_IS_SANITIZED)

#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/executor.h"
#include "engine/test_group.h"
#include "graph/model_builder.h"
#include "tests/reference/engine_check.h"

namespace {

// Return addresses of the allocations that this thread made while it counted.
thread_local bool counting = false;
thread_local std::size_t calls = 0;
thread_local std::array<void*, 4096> callers;

void note(void* caller) {
  if (!counting) return;
  if (calls < callers.size()) callers[calls] = caller;
  ++calls;
}

}  // namespace

extern "C" {
// glibc's own names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t n);
void __libc_free(void* memory);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

void* malloc(std::size_t size) {
  note(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  note(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  note(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  note(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? 12 : 0;  // ENOMEM
}
}

void* operator new(std::size_t size) {
  note(__builtin_return_address(0));
  if (void* memory = __libc_malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  note(__builtin_return_address(0));
  if (void* memory = __libc_memalign(static_cast<std::size_t>(alignment), size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  __libc_free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  __libc_free(memory);
}

namespace cohort {
namespace {

using reference::Samples;

struct Count {
  std::size_t ours = 0;
  std::size_t libraries = 0;  // oneDNN and the OpenMP runtime below it
  std::string firstOfOurs = {};
};

bool isFromLibrary(void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libdnnl") != nullptr ||
         std::strstr(info.dli_fname, "libgomp") != nullptr;
}

template <class Work>
Count countAllocations(Work&& work) {
  calls = 0;
  counting = true;
  work();
  counting = false;
  Count count;
  if (calls > callers.size()) {  // oneDNN generates code at first use
    count.libraries = calls;
    return count;
  }
  for (std::size_t i = 0; i < calls; ++i) {
    if (isFromLibrary(callers[i])) {
      ++count.libraries;
      continue;
    }
    ++count.ours;
    Dl_info info{};
    if (count.firstOfOurs.empty() && dladdr(callers[i], &info) != 0) {
      const auto offset = static_cast<char*>(callers[i]) - static_cast<char*>(info.dli_fbase);
      count.firstOfOurs = fmt::format("{}+{:#x}", info.dli_fname, offset);  // as addr2line wants it
    }
  }
  return count;
}

// Takes gradients without allocating.
class BufferSink : public GradientSink {
 public:
  explicit BufferSink(const ParameterLayout& layout) : layout_(layout), gradient_(layout.size()) {}
  std::span<float> open(PieceIndex piece) override {
    return std::span(gradient_).subspan(layout_.piece(piece).offset, layout_.piece(piece).size);
  }
  void close(PieceIndex) override {}

 private:
  const ParameterLayout& layout_;
  std::vector<float> gradient_;
};

Graph everyOperator() {
  ModelBuilder b({3, 9, 9}, 5);
  ValueId x = b.convRelu("conv1", b.input(), {.outputs = 16, .kernel = 3, .padding = Padding::same()});
  x = b.lrn(b.maxPool(x, 3, 2), {.size = 5, .alpha = 0.1f});
  x = b.relu(b.batchNorm("norm", x));
  const ValueId odd = b.conv("odd", x, {.outputs = 5, .kernel = 3, .padding = Padding::same()});
  x = b.concat({b.relu(b.add({x, odd})), odd});
  b.softmaxLoss("aux", b.dense("aux.logits", b.globalAveragePool(x), {.outputs = 5}), {.weight = 0.3f});
  x = b.dropout(b.denseRelu("hidden", x, {.outputs = 24}), 0.5f);
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 5}));
  return b.build();
}

// No primitive of oneDNN: only its GEMM.
Graph ownLoops() {
  ModelBuilder b({3, 4, 4}, 5);
  const ValueId x = b.relu(b.lrn(b.input(), {.size = 3}));
  const ValueId hidden = b.dropout(b.denseRelu("hidden", b.concat({x, b.input()}), {.outputs = 24}), 0.3f);
  b.softmaxLoss("loss", b.dense("logits", b.add({hidden, hidden}), {.outputs = 5}));
  return b.build();
}

std::vector<Count> countSteps(const Graph& graph, bool training) {
  singleThreadedKernels();
  const ExecutionPlan plan = compile(graph, {.grainSize = 4, .training = training});
  const std::vector<float> parameters = reference::variedParameters(graph);
  PreparedWeights prepared(plan, parameters);
  FloatBuffer memory((plan.laneBytes() + sizeof(float) - 1) / sizeof(float));
  Executor executor(plan, prepared, memory.span(), 1);
  BufferSink sink(plan.layout());
  const Samples samples[2] = {reference::namedSamples("a", graph, 4), reference::namedSamples("b", graph, 4)};
  std::vector<Count> counts;
  for (int step = 0; step < 12; ++step) {
    const Batch batch = samples[step % 2].batch();
    counts.push_back(countAllocations([&] {
      executor.refreshWeights({});
      executor.forward(batch);
      if (training) executor.backward(sink);
    }));
  }
  return counts;
}

// The same, divided over two workers: by worker, what its lane allocated in each step. What the communication threads do is
// not the lane's.
std::vector<std::vector<Count>> countDividedSteps(const Graph& graph, const Strategy& strategy) {
  const std::vector<float> parameters = reference::variedParameters(graph);
  const Round rounds[2] = {namedRound("a", graph, 2, 4, 2), namedRound("b", graph, 2, 4, 1)};
  std::vector<std::vector<Count>> counts(2);
  asGroup(2, 0, [&](Communicator& communicator) {
    const LocalGraph local = partition(graph, strategy, {communicator.rank(), 2});
    const ExecutionPlan plan = compile(local, {.grainSize = 4});
    PreparedWeights prepared(plan, parameters);
    MemberLane lane(plan, prepared, communicator);
    BufferSink sink(plan.layout());
    for (int step = 0; step < 12; ++step) {
      const Batch batch = rounds[step % 2].of(local);
      counts[static_cast<std::size_t>(communicator.rank())].push_back(countAllocations([&] {
        lane.executor.refreshWeights({});
        lane.executor.forward(batch);
        lane.executor.backward(sink);
      }));
    }
  });
  return counts;
}

constexpr std::size_t kWarmUpSteps = 2;

TEST(Allocations, AreCountedByWhoMakesThem) {
  const Count count =
      countAllocations([] { std::vector<int>(100).swap(*std::make_unique<std::vector<int>>(3)); });
  EXPECT_GE(count.ours, 2u);
  EXPECT_EQ(count.libraries, 0u);
  EXPECT_GT(countSteps(everyOperator(), true).back().libraries, 0u) << "oneDNN's are seen";
}

TEST(Allocations, AreNoneOfOursInAStep) {
  for (const bool training : {true, false}) {
    const std::vector<Count> counts = countSteps(everyOperator(), training);
    for (std::size_t step = kWarmUpSteps; step < counts.size(); ++step) {
      EXPECT_EQ(counts[step].ours, 0u)
          << "step " << step << ", for example from " << counts[step].firstOfOurs;
      EXPECT_EQ(counts[step].libraries, counts[kWarmUpSteps].libraries)
          << "oneDNN's bookkeeping must not grow";
    }
  }
}

TEST(Allocations, AreNoneOfOursInAStepOfOwnLoops) {
  const std::vector<Count> counts = countSteps(ownLoops(), true);
  for (std::size_t step = kWarmUpSteps; step < counts.size(); ++step) {
    EXPECT_EQ(counts[step].ours, 0u) << counts[step].firstOfOurs;
    EXPECT_EQ(counts[step].libraries, counts[kWarmUpSteps].libraries);
  }
}

TEST(Allocations, AreNoneOfOursInAStepThatWorkersComputeTogether) {
  for (const Strategy& strategy : {Strategy::model(), Strategy::hybrid()}) {
    for (const std::vector<Count>& counts : countDividedSteps(everyOperator(), strategy)) {
      for (std::size_t step = kWarmUpSteps; step < counts.size(); ++step) {
        EXPECT_EQ(counts[step].ours, 0u)
            << "step " << step << ", for example from " << counts[step].firstOfOurs;
        EXPECT_EQ(counts[step].libraries, counts[kWarmUpSteps].libraries);
      }
    }
  }
}

}  // namespace
}  // namespace cohort

#endif
