// The pages that teach. commands_test.cc holds them to the flags and to the size of a screen.
#include "cli/command.h"

namespace tern {

const char kTernHelp[] =
    R"(tern trains deep-learning models on machines that may vanish at any moment.
A run that was interrupted continues, to the bit, when you type the same again.

  tern train fashion-mnist --run demo   train it, into the folder runs/demo
  tern report demo                      how it went, and what was lost

  train FILE       train on this machine, or continue where the run was left
  plan FILE        what a run will do, how long and for how much
  eval DIR         the accuracy of a run's weights, on any data
  predict DIR P... what a run's weights see in pictures
  launch FILE      train on other machines; `launch ... -- PROGRAM` runs any
  status, logs, connect, restart, stop, preempt, down   for a launched run
  data             data sets: import, ls, verify, show, bench
  report DIR       how a run ended and why; --json for programs
  ls, checkpoints, rm   the runs in runs/ or URI; what one has saved; remove it
  run              runs as a whole: copy, also from one cloud to another
  store            buckets: ls, cp, cat, rm, mb, bench
  tensorboard DIR  show runs in TensorBoard
  recipes          the recipes: complete, named run files
  init RECIPE      print a run file to edit: tern init fashion-mnist > my.toml
  doctor           what this machine can do, and what is wrong; doctor URI
  completion bash  completion for your shell, also for zsh
FILE: a run file or recipe. DIR: a run's folder, name or URI. See COMMAND --help
)";

const char kTrainHelp[] =
    R"(tern train: train on this machine, or continue where the run was left.

  tern train FILE [--run DIR] [--set key=value]... [--steps N]
                  [--ranks N] [--halt-file PATH] [--on-event CMD]
                  [--from DIR[@STEP]] [--init WEIGHTS] [--fresh] [--create]

  FILE              a run file, or the name of a recipe (see `tern recipes`)
  --run DIR         the run's folder; a NAME without '/' stands for runs/NAME.
                    Not given: runs/ and the name of the run file. Or a place in
                    a bucket: s3://bucket/prefix, gs://bucket/prefix,
                    az://account/container/prefix
  --set key=value   set one option, over the run file; may be given many times
  --steps N         stop after step N and change nothing else; 0 is no limit
  --ranks N         N processes share each batch; one that dies is started again
                    while the others go on
  --halt-file PATH  save and leave as preempted once this file exists; if it
                    exists at the start, nothing is trained
  --on-event CMD    when this process is done, failed, preempted or stopped, run
                    `sh -c CMD` for at most 20 s, with TERN_EVENT (one of these
                    words), TERN_RUN, TERN_STEP, TERN_STEPS_LOST, TERN_REASON
                    and TERN_EXIT_CODE in its environment
  --from DIR@STEP   begin the new run with a checkpoint of another: of that
                    step, DIR@best for the best, DIR for the newest. It needs
                    the same data, model shape, train.batch and train.seed;
                    everything else may differ. DIR is only read, and only
                    once: the same command again continues the new run
  --init WEIGHTS    begin with these weights (.safetensors, or a .pth with a
                    state dict; torchvision's names; or s3://bucket/name and the
                    like) instead of random ones. The last layer stays random
                    where the classes differ in number
  --fresh           begin anew; the old run is kept beside it under a number.
                    A folder that holds something else than a run is left alone.
                    In a bucket only where there is no run yet
  --create          make the bucket of --run if it is not there
  --options         explain every option, with the values of FILE if given
  --help            this page

Resuming: type the same command again. A run folder that holds a run is
continued at its newest checkpoint, with the same data, order and arithmetic, so
the result is the same to the bit. What may differ then (epochs, steps,
checkpoint.every, loader.threads and more) is marked in `tern train --options`.

A notice (SIGTERM, SIGUSR1, SIGHUP, the halt file, the cloud) or Ctrl-C makes
the run save and leave between two steps; Ctrl-C twice leaves without saving.

Exit codes: 0 done, 75 preempted (run it again), 10 stopped by Ctrl-C, 2 usage
or run file, 3 something was not found, 4 damaged data, 5 another process has
the run or it is another run's folder, 6 disk or permissions, 7 the run was
taken over, 8 the loss is no longer a number, 1 a bug, 130 Ctrl-C twice.
)";

const char kTrainTeach[] =
    R"(tern train: which run file or recipe?

  tern train fashion-mnist                     a recipe, into runs/fashion-mnist
  tern train fashion-mnist --run demo          the same, into runs/demo
  tern train my.toml --set train.epochs=3      a run file, one option changed

A command that was interrupted continues the run when it is typed again. It
exits with 0 when the run is done, 75 when it was preempted, 10 when Ctrl-C
stopped it; anything else is an error, with the reason on stderr.

Read on: `tern recipes` lists the recipes, `tern train --help` explains the
flags, `tern train --options` all options, `tern init RECIPE` prints a run file
to edit.
)";

}  // namespace tern
