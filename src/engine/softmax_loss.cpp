// Softmax cross-entropy. The forward task also writes the gradient of the logits, (p - onehot) * scale, while
// the probabilities are in the cache; backward only hands it on.
#include <algorithm>
#include <cmath>

#include "engine/compiler.h"

namespace cohort {
namespace {

struct Head {
  std::int64_t samples, classes;
  SoftmaxLoss op;
  bool counts;  // the last evaluated head: right answers are counted here
};

// How many classes come before the label's when sorted by logit; ties go to the lower class.
std::int64_t rankOf(const float* logits, std::int64_t classes, std::int64_t label) {
  std::int64_t rank = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    if (logits[c] > logits[label] || (logits[c] == logits[label] && c < label)) ++rank;
  }
  return rank;
}

// One sample's loss; `probabilities` receives the softmax.
double softmax(const float* logits, std::int64_t classes, std::int64_t label, float* probabilities) {
  const float largest = *std::max_element(logits, logits + classes);
  float sum = 0.0f;
  for (std::int64_t c = 0; c < classes; ++c) {
    probabilities[c] = std::exp(logits[c] - largest);
    sum += probabilities[c];
  }
  const float inverse = 1.0f / sum;
  for (std::int64_t c = 0; c < classes; ++c) probabilities[c] *= inverse;
  return std::log(static_cast<double>(sum)) - static_cast<double>(logits[label] - largest);
}

void run(const Head& head, const float* logits, float* gradient, RunState& state) {
  const Batch& batch = state.batch;
  const float scale = head.op.weight * (head.op.reduction == SoftmaxLoss::Reduction::Mean
                                            ? 1.0f / static_cast<float>(batch.globalSize)
                                            : 1.0f);
  for (std::int64_t n = 0; n < head.samples; ++n) {
    const float* row = logits + n * head.classes;
    float* out = gradient + n * head.classes;
    const std::int32_t label = state.labels[static_cast<std::size_t>(n)];
    if (label == kIgnoredLabel) {
      std::fill_n(out, head.classes, 0.0f);
      continue;
    }
    state.loss.loss += static_cast<double>(head.op.weight) * softmax(row, head.classes, label, out);
    for (std::int64_t c = 0; c < head.classes; ++c) out[c] *= scale;
    out[label] -= scale;
    if (head.counts) {
      const std::int64_t rank = rankOf(row, head.classes, label);
      ++state.loss.samples;
      state.loss.top1 += rank < 1 ? 1 : 0;
      state.loss.top5 += rank < 5 ? 1 : 0;
    }
  }
}

// The last head that evaluation has too.
bool countsAnswers(const Graph& graph, const Node& node) {
  NodeId last = -1;
  for (const Node& other : graph.nodes) {
    const auto* loss = std::get_if<SoftmaxLoss>(&other.op);
    if (loss != nullptr && loss->evaluated) last = other.id;
  }
  return last == node.id;
}

}  // namespace

void compileSoftmaxLoss(Compiler& compiler, const Node& node, const SoftmaxLoss& op) {
  const ValueId in = node.inputs[0];
  const Tensor logits = compiler.value(node, in, compiler.plainDesc(in));
  const Tensor gradient = compiler.tensor(compiler.plainDesc(in));
  const Head head{compiler.batch(in), compiler.graph().shapeOf(in).count(), op,
                  countsAnswers(compiler.graph(), node)};
  compiler.emit({node.id, "loop", {logits.buffer, gradient.buffer}, [=](Binder& binder) -> Action {
                   float* out = binder.at(gradient.buffer);
                   return [=, &binder](RunState& state) {
                     run(head, binder.at(logits.buffer, state), out, state);
                   };
                 }});
  compiler.onBackward([=, &compiler, &node] {
    if (compiler.needsGradient(in)) compiler.contribute(node, in, gradient);
  });
}

}  // namespace cohort
