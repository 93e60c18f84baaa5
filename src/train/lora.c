/*
 * lora.c - the product and its gradients.
 */
#include "train/lora.h"

void lora_delta(const struct env *e, const struct lora *l, real *delta)
{
    mm(e, delta, l->cols, (struct mm_size){l->rows, l->cols, l->rank},
       (struct mat){l->b, l->rank, false}, (struct mat){l->a, l->cols, false},
       (struct mm_how){l->unit, false});
}

void lora_collect(const struct env *e, const struct lora *l, const real *grad)
{
    const struct mm_how add = {l->unit, true};

    mm(e, l->gb, l->rank, (struct mm_size){l->rows, l->rank, l->cols},
       (struct mat){grad, l->cols, false}, (struct mat){l->a, l->cols, true}, add);
    mm(e, l->ga, l->cols, (struct mm_size){l->rank, l->cols, l->rows},
       (struct mat){l->b, l->rank, true}, (struct mat){grad, l->cols, false}, add);
}
