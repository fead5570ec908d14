/* A number that remembers, as C keeps it: the compiled twin of node.py, which says what all of this means.

   Sums and products are made and derived here; every other operation is asked of its row in rules.py. Nodes refer to
   their parents and never back, so the collector is not told of them: it would walk the growing graph again and again.
   A graph that is no longer wanted is freed by counting references alone, in a loop and not by calls within calls,
   however deep it is.

   What a step costs is the time to fetch its nodes from memory. So a node is as large as a line of the cache, few
   passes go over a graph, and nodes are asked for before they are needed. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

typedef struct Node {
    PyObject_HEAD
    double data;
    double grad;
    PyObject *rule;
    PyObject *left;      /* of two parents the first; else a tuple of all, or NULL for none */
    struct Node *right;  /* of two parents the second; else NULL */
    uint64_t marks;      /* WAS_COMPARED, HAS_NAME, and above them the walk that saw this node last */
} Node;

_Static_assert(sizeof(void *) != 8 || sizeof(Node) == 64, "a node is a line of the cache");

/* Whether Python decided something by it, and whether it stands in `names`. */
#define WAS_COMPARED ((uint64_t)1)
#define HAS_NAME ((uint64_t)2)
#define WALK ((uint64_t)4) /* the first walk's number, and the distance between two */

#if defined(__GNUC__)
#define prefetch(address) __builtin_prefetch(address, 1)
#else
#define prefetch(address) ((void)(address))
#endif

static PyTypeObject NodeType;

/* The rows of rules.py that this file has to know, given by bind(). */
static PyObject *INPUT, *CONSTANT, *ADD, *MULTIPLY, *SUM;
static PyObject *in_python; /* node.py's propagate */
static PyObject *no_parents, *no_name, *forward_name, *slopes_name, *listens_name;
static PyObject *names; /* of the few nodes that have one, by their address */
static uint64_t last_walk;
static PyTypeObject *usual; /* the type that untracked() made last: nearly all nodes are of it */

static inline int is_node(PyObject *object)
{
    return Py_IS_TYPE(object, usual) || PyObject_TypeCheck(object, &NodeType);
}

/* How many parents a node has, and which. */
static inline Py_ssize_t n_parents(const Node *node)
{
    return node->right != NULL ? 2 : node->left != NULL ? PyTuple_GET_SIZE(node->left) : 0;
}

static inline Node *parent(const Node *node, Py_ssize_t i)
{
    if (node->right != NULL) {
        return i ? node->right : (Node *)node->left;
    }
    return (Node *)PyTuple_GET_ITEM(node->left, i);
}

/* Where nodes of the usual type lie: in slabs, one behind the other as they were made, which is how the walk back and
   the freeing fetch them. Python's own memory hands out places in the order in which they were freed.

   Each slab begins at a multiple of its size, so that a node tells its slab. One that is empty is filled anew from its
   beginning. One that is three quarters empty is filled up before another is asked for: memory that lives on here and
   there keeps at the most four times its size. */
#define SLAB_SIZE ((size_t)1 << 16)
#define MOST_EMPTY 512 /* 32 MB that are kept for the next graph */

typedef struct Slab {
    struct Slab *next, *previous; /* of the same list */
    Node *freed;                  /* places that were used before, linked through `marks` */
    uint32_t n_used, n_living;    /* places ever used, and nodes in them now */
    _Alignas(64) Node nodes[];
} Slab;

#define N_PLACES ((SLAB_SIZE - offsetof(Slab, nodes)) / sizeof(Node))
#define FEW (N_PLACES / 4)

static Slab *current, *empty_slabs, *sparse_slabs;
static size_t n_empty;

static void link_slab(Slab **list, Slab *slab)
{
    slab->previous = NULL;
    slab->next = *list;
    if (*list != NULL) {
        (*list)->previous = slab;
    }
    *list = slab;
}

static void unlink_slab(Slab **list, Slab *slab)
{
    *(slab->previous != NULL ? &slab->previous->next : list) = slab->next;
    if (slab->next != NULL) {
        slab->next->previous = slab->previous;
    }
}

/* Another slab to take nodes from: an empty one, a sparse one, or new memory. */
static Slab *next_slab(void)
{
    Slab *slab = empty_slabs;
    if (slab != NULL) {
        unlink_slab(&empty_slabs, slab);
        n_empty--;
    } else if ((slab = sparse_slabs) != NULL) {
        unlink_slab(&sparse_slabs, slab);
    } else if ((slab = aligned_alloc(SLAB_SIZE, SLAB_SIZE)) != NULL) {
        slab->freed = NULL;
        slab->n_used = slab->n_living = 0;
    }
    return slab;
}

static PyObject *take_node(PyTypeObject *type, Py_ssize_t n_items)
{
    Slab *slab = current;
    if (slab == NULL || (slab->freed == NULL && slab->n_used == N_PLACES)) {
        if ((slab = next_slab()) == NULL) {
            return PyErr_NoMemory();
        }
        current = slab;
    }
    Node *node = slab->freed;
    if (node != NULL) {
        slab->freed = (Node *)(uintptr_t)node->marks;
    } else {
        node = &slab->nodes[slab->n_used++];
    }
    slab->n_living++;
    memset(node, 0, sizeof(Node));
    return PyObject_Init((PyObject *)node, type);
}

static void give_node(void *place)
{
    Node *node = place;
    Slab *slab = (Slab *)((uintptr_t)node & ~(uintptr_t)(SLAB_SIZE - 1));
    node->marks = (uintptr_t)slab->freed;
    slab->freed = node;
    slab->n_living--;
    if (slab->n_living == 0) {
        slab->freed = NULL;
        slab->n_used = 0;
    }
    if (slab == current) {
        return;
    }
    if (slab->n_living == FEW) {
        link_slab(&sparse_slabs, slab);
    } else if (slab->n_living == 0) {
        unlink_slab(&sparse_slabs, slab);
        if (n_empty == MOST_EMPTY) {
            free(slab);
        } else {
            link_slab(&empty_slabs, slab);
            n_empty++;
        }
    }
}

static inline Node *new_node(PyTypeObject *type, double data, PyObject *rule)
{
    Node *node = (Node *)(type == usual ? take_node(type, 0) : type->tp_alloc(type, 0));
    if (node == NULL) {
        return NULL;
    }
    node->data = data;
    node->rule = Py_NewRef(rule);
    return node;
}

/* Give a node a name, or with NULL or an empty one take it away. */
static int set_name(Node *node, PyObject *name)
{
    int is_named = name != NULL && PyUnicode_GET_LENGTH(name) > 0, failed = 0;
    if (!is_named && !(node->marks & HAS_NAME)) {
        return 0;
    }
    PyObject *address = PyLong_FromVoidPtr(node);
    if (address == NULL) {
        return -1;
    }
    failed = is_named ? PyDict_SetItem(names, address, name) : PyDict_DelItem(names, address);
    Py_DECREF(address);
    if (!failed) {
        node->marks = is_named ? node->marks | HAS_NAME : node->marks & ~HAS_NAME;
    }
    return failed;
}

/* float(number), with Python's own errors */
static int as_double(PyObject *number, double *found)
{
    if (PyFloat_CheckExact(number)) {
        *found = PyFloat_AS_DOUBLE(number);
        return 0;
    }
    PyObject *converted = PyNumber_Float(number);
    if (converted == NULL) {
        return -1;
    }
    *found = PyFloat_AS_DOUBLE(converted);
    Py_DECREF(converted);
    return 0;
}

/* A new reference: the node itself, or the number as a constant of this type. */
static Node *as_node(PyTypeObject *type, PyObject *number)
{
    double data;
    if (is_node(number)) {
        return (Node *)Py_NewRef(number);
    }
    if (as_double(number, &data) < 0) {
        return NULL;
    }
    return new_node(type, data, CONSTANT);
}

static PyObject *of_two(PyObject *a, PyObject *b, PyObject *rule)
{
    PyTypeObject *type = is_node(a) ? Py_TYPE(a) : Py_TYPE(b);
    Node *left = as_node(type, a);
    if (left == NULL) {
        return NULL;
    }
    Node *right = as_node(type, b);
    if (right == NULL) {
        Py_DECREF(left);
        return NULL;
    }
    Node *node = new_node(type, rule == ADD ? left->data + right->data : left->data * right->data, rule);
    if (node == NULL) {
        Py_DECREF(left);
        Py_DECREF(right);
        return NULL;
    }
    node->left = (PyObject *)left;
    node->right = right;
    return (PyObject *)node;
}

static PyObject *node_add(PyObject *a, PyObject *b) { return of_two(a, b, ADD); }
static PyObject *node_multiply(PyObject *a, PyObject *b) { return of_two(a, b, MULTIPLY); }

static int node_init(Node *self, PyObject *args, PyObject *kwargs)
{
    static char *arguments[] = {"data", "name", NULL};
    PyObject *number, *name = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|U:Value", arguments, &number, &name) ||
        as_double(number, &self->data) < 0 || set_name(self, name) < 0) {
        return -1;
    }
    self->grad = 0.0;
    Py_XSETREF(self->rule, Py_NewRef(INPUT));
    Py_CLEAR(self->left);
    Py_CLEAR(self->right);
    return 0;
}

/* Freeing a node may free its parents, and theirs. Past this depth they wait in a list, linked through `marks`, that
   the outermost call works off: a chain of a million nodes must not need a stack of a million frames. */
#define MOST_NESTED 64
static Node *waiting;
static int n_nested;

static void release(Node *node)
{
    Py_XDECREF(node->rule);
    Py_XDECREF(node->left);
    Py_XDECREF(node->right);
    Py_TYPE(node)->tp_free(node);
}

static void node_dealloc(Node *self)
{
    if (self->marks & HAS_NAME) {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback);
        if (set_name(self, NULL) < 0) {
            PyErr_WriteUnraisable(NULL);
        }
        PyErr_Restore(type, error, traceback);
    }
    if (n_nested >= MOST_NESTED) {
        self->marks = (uintptr_t)waiting;
        waiting = self;
        return;
    }
    n_nested++;
    release(self);
    while (n_nested == 1 && waiting != NULL) {
        Node *next = waiting;
        waiting = (Node *)(uintptr_t)next->marks;
        release(next);
    }
    n_nested--;
}

static void untracked_dealloc(Node *self)
{
    PyTypeObject *type = Py_TYPE(self);
    node_dealloc(self);
    Py_DECREF(type); /* its own instances have to, as they are not Python's to free */
}

static PyObject *node_parents(Node *self, void *closure)
{
    if (self->right != NULL) {
        return PyTuple_Pack(2, self->left, self->right);
    }
    return Py_NewRef(self->left ? self->left : no_parents);
}

static void set_parents(Node *node, PyObject *parents)
{
    int are_two = PyTuple_GET_SIZE(parents) == 2;
    Py_XSETREF(node->right, are_two ? (Node *)Py_NewRef(PyTuple_GET_ITEM(parents, 1)) : NULL);
    Py_XSETREF(node->left, Py_NewRef(are_two ? PyTuple_GET_ITEM(parents, 0) : parents));
}

/* The node's history, as copying and pickling need it; the number itself and its gradient are set as attributes. */
static PyObject *node_remember(Node *self, PyObject *args)
{
    PyObject *rule, *parents;
    if (!PyArg_ParseTuple(args, "OO!", &rule, &PyTuple_Type, &parents)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parents); i++) {
        if (!is_node(PyTuple_GET_ITEM(parents, i))) {
            PyErr_SetString(PyExc_TypeError, "a parent has to be a node");
            return NULL;
        }
    }
    Py_XSETREF(self->rule, Py_NewRef(rule));
    set_parents(self, parents);
    Py_RETURN_NONE;
}

static PyObject *node_name(Node *self, void *closure)
{
    if (!(self->marks & HAS_NAME)) {
        return Py_NewRef(no_name);
    }
    PyObject *address = PyLong_FromVoidPtr(self);
    PyObject *name = address != NULL ? PyDict_GetItemWithError(names, address) : NULL;
    Py_XDECREF(address);
    return Py_XNewRef(name);
}

static int node_rename(Node *self, PyObject *name, void *closure)
{
    if (name == NULL || !PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a name has to be a string");
        return -1;
    }
    return set_name(self, name);
}

static PyObject *node_was_compared(Node *self, void *closure) { return PyBool_FromLong(self->marks & WAS_COMPARED); }

static int node_set_was_compared(Node *self, PyObject *answer, void *closure)
{
    int is_true = answer != NULL ? PyObject_IsTrue(answer) : 0;
    if (is_true >= 0) {
        self->marks = is_true ? self->marks | WAS_COMPARED : self->marks & ~WAS_COMPARED;
    }
    return is_true < 0 ? -1 : 0;
}

static PyMemberDef node_members[] = {
    {"data", T_DOUBLE, offsetof(Node, data), 0, "the number"},
    {"grad", T_DOUBLE, offsetof(Node, grad), 0, "what the last backward() found"},
    {"rule", T_OBJECT_EX, offsetof(Node, rule), 0, "the row of the table that made it"},
    {"_left", T_OBJECT, offsetof(Node, left), READONLY, "for node.py"},
    {"_right", T_OBJECT, offsetof(Node, right), READONLY, "for node.py"},
    {NULL},
};

static PyGetSetDef node_attributes[] = {
    {"name", (getter)node_name, (setter)node_rename, "What it is called, or nothing.", NULL},
    {"was_compared", (getter)node_was_compared, (setter)node_set_was_compared, "Whether Python decided something by it.", NULL},
    {"parents", (getter)node_parents, NULL, "What it was made from, in order and with repeats.", NULL},
    {"_parents", (getter)node_parents, NULL, "for node.py", NULL},
    {NULL},
};

static PyMethodDef node_methods[] = {
    {"remember", (PyCFunction)node_remember, METH_VARARGS, "Set by which rule and from which parents it was made."},
    {NULL},
};

static PyNumberMethods node_numbers = {.nb_add = node_add, .nb_multiply = node_multiply};

static PyTypeObject NodeType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pellucid.autograd._node.Node",
    .tp_doc = "A number with its history.",
    .tp_basicsize = sizeof(Node),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)node_init,
    .tp_dealloc = (destructor)node_dealloc,
    .tp_members = node_members,
    .tp_getset = node_attributes,
    .tp_methods = node_methods,
    .tp_as_number = &node_numbers,
};

/* How many numbers a rule takes from the stack before it needs memory of its own. */
#define MOST_ON_STACK 8

/* rule.forward(*numbers) or rule.slopes(*numbers): a new reference */
static PyObject *ask_rule(PyObject *rule, PyObject *method, const double *numbers, Py_ssize_t n)
{
    PyObject *few[MOST_ON_STACK], **arguments = few, *answer = NULL;
    Py_ssize_t n_made = 0;
    PyObject *function = PyObject_GetAttr(rule, method);
    if (function == NULL) {
        return NULL;
    }
    if (n > MOST_ON_STACK && (arguments = PyMem_New(PyObject *, n)) == NULL) {
        Py_DECREF(function);
        return PyErr_NoMemory();
    }
    while (n_made < n && (arguments[n_made] = PyFloat_FromDouble(numbers[n_made])) != NULL) {
        n_made++;
    }
    if (n_made == n) {
        answer = PyObject_Vectorcall(function, arguments, n, NULL);
    }
    while (n_made > 0) {
        Py_DECREF(arguments[--n_made]);
    }
    if (arguments != few) {
        PyMem_Free(arguments);
    }
    Py_DECREF(function);
    return answer;
}

static int run_forward(PyObject *rule, PyObject *parents, double *found)
{
    Py_ssize_t n = PyTuple_GET_SIZE(parents);
    double few[MOST_ON_STACK], *numbers = few;
    if (rule == SUM) {
        *found = 0.0;
        for (Py_ssize_t i = 0; i < n; i++) {
            *found += ((Node *)PyTuple_GET_ITEM(parents, i))->data;
        }
        return 0;
    }
    if (n > MOST_ON_STACK && (numbers = PyMem_New(double, n)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        numbers[i] = ((Node *)PyTuple_GET_ITEM(parents, i))->data;
    }
    PyObject *answer = ask_rule(rule, forward_name, numbers, n);
    if (numbers != few) {
        PyMem_Free(numbers);
    }
    if (answer == NULL) {
        return -1;
    }
    int failed = as_double(answer, found);
    Py_DECREF(answer);
    return failed;
}

/* apply(type, rule, *inputs): the result of a rule as a new node of this type */
static PyObject *apply(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args < 2 || !PyType_Check(args[0]) || !PyType_IsSubtype((PyTypeObject *)args[0], &NodeType)) {
        PyErr_SetString(PyExc_TypeError, "apply takes a type of nodes, a rule and its inputs");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)args[0];
    PyObject *rule = args[1], *parents = PyTuple_New(n_args - 2);
    double data;
    if (parents == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 2; i < n_args; i++) {
        Node *parent = as_node(type, args[i]);
        if (parent == NULL) {
            Py_DECREF(parents);
            return NULL;
        }
        PyTuple_SET_ITEM(parents, i - 2, (PyObject *)parent);
    }
    if (run_forward(rule, parents, &data) < 0) {
        Py_DECREF(parents);
        return NULL;
    }
    Node *node = new_node(type, data, rule);
    if (node == NULL) {
        Py_DECREF(parents);
        return NULL;
    }
    PyObject_GC_UnTrack(parents); /* nothing in it is tracked either */
    set_parents(node, parents);
    Py_DECREF(parents);
    return (PyObject *)node;
}

/* Nodes in a row that grows. They are borrowed: whoever holds the output holds them all. */
typedef struct {
    Node **nodes;
    size_t n, size;
} Row;

/* Make room for so many more. */
static int reserve(Row *row, size_t more)
{
    size_t size = row->size ? row->size : 1024;
    while (size < row->n + more) {
        size *= 2;
    }
    Node **nodes = size != row->size ? PyMem_Realloc(row->nodes, size * sizeof(Node *)) : row->nodes;
    if (nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    row->nodes = nodes;
    row->size = size;
    return 0;
}

/* Whether a rule does not listen to all of its inputs: 1, 0, or -1 for an error. */
static int is_selective(PyObject *rule)
{
    PyObject *listens = PyObject_GetAttr(rule, listens_name);
    Py_XDECREF(listens);
    return listens == NULL ? -1 : listens != Py_None;
}

/* On the stack of a walk, a node whose parents are all in the order by now. */
#define FINISHED ((uintptr_t)1)

/* The output and everything it was made from, once each, parents before children, in the order of node.py. If asked,
   their gradients become 0 on the way. 1 if some rule does not listen to all of its inputs, else 0, or -1. */
static int walk(Node *output, Row *order, int clears)
{
    Row stack = {0};
    uint64_t visit = last_walk += WALK;
    int found = 0;
    PyObject *last = NULL; /* rows of one rule mostly follow each other */
    if (reserve(&stack, 1) < 0) {
        return -1;
    }
    stack.nodes[stack.n++] = output;
    while (stack.n) {
        Node *node = stack.nodes[--stack.n];
        if (order->n == order->size && reserve(order, 1) < 0) {
            found = -1;
            break;
        }
        if ((uintptr_t)node & FINISHED) {
            order->nodes[order->n++] = (Node *)((uintptr_t)node & ~FINISHED);
            continue;
        }
        if (node->marks >= visit) {
            continue;
        }
        node->marks = visit | (node->marks & (WALK - 1));
        if (clears) {
            node->grad = 0.0;
        }
        Py_ssize_t n = n_parents(node);
        if (n == 0) {
            order->nodes[order->n++] = node;
            continue;
        }
        PyObject *rule = node->rule;
        if (rule != ADD && rule != MULTIPLY && rule != SUM && rule != last) {
            int selective = is_selective(rule);
            if (selective < 0) {
                found = -1;
                break;
            }
            found |= selective;
            last = rule;
        }
        if (stack.size - stack.n <= (size_t)n && reserve(&stack, (size_t)n + 1) < 0) {
            found = -1;
            break;
        }
        stack.nodes[stack.n++] = (Node *)((uintptr_t)node | FINISHED);
        for (Py_ssize_t i = 0; i < n; i++) {
            prefetch(stack.nodes[stack.n++] = parent(node, i));
        }
    }
    PyMem_Free(stack.nodes);
    return found;
}

static Node *require_node(PyObject *object)
{
    if (!is_node(object)) {
        PyErr_Format(PyExc_TypeError, "a node is wanted, not a %s", Py_TYPE(object)->tp_name);
        return NULL;
    }
    return (Node *)object;
}

static PyObject *ancestors(PyObject *module, PyObject *argument)
{
    Node *output = require_node(argument);
    Row order = {0};
    if (output == NULL || walk(output, &order, 0) < 0) {
        PyMem_Free(order.nodes);
        return NULL;
    }
    PyObject *list = PyList_New((Py_ssize_t)order.n);
    for (size_t i = 0; list != NULL && i < order.n; i++) {
        PyList_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(order.nodes[i]));
    }
    PyMem_Free(order.nodes);
    return list;
}

/* Hand a node's gradient on to its parents by the slopes of its rule. */
static inline int hand_on(Node *node)
{
    double upstream = node->grad;
    Py_ssize_t n = n_parents(node);
    if (n == 0) {
        return 0;
    }
    if (node->rule == ADD || node->rule == SUM) {
        for (Py_ssize_t i = 0; i < n; i++) {
            parent(node, i)->grad += upstream;
        }
        return 0;
    }
    if (node->rule == MULTIPLY) {
        Node *left = (Node *)node->left, *right = node->right;
        left->grad += upstream * right->data;
        right->grad += upstream * left->data;
        return 0;
    }
    double few[MOST_ON_STACK], *numbers = few;
    if (n + 1 > MOST_ON_STACK && (numbers = PyMem_New(double, n + 1)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    numbers[0] = node->data;
    for (Py_ssize_t i = 0; i < n; i++) {
        numbers[i + 1] = parent(node, i)->data;
    }
    PyObject *answer = ask_rule(node->rule, slopes_name, numbers, n + 1);
    if (numbers != few) {
        PyMem_Free(numbers);
    }
    if (answer == NULL) {
        return -1;
    }
    PyObject *slopes = PySequence_Fast(answer, "slopes have to be a sequence");
    Py_DECREF(answer);
    if (slopes == NULL) {
        return -1;
    }
    int failed = 0;
    if (PySequence_Fast_GET_SIZE(slopes) != n) {
        PyErr_SetString(PyExc_ValueError, "a rule has to give one slope for each input");
        failed = -1;
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        double slope;
        failed = as_double(PySequence_Fast_GET_ITEM(slopes, i), &slope);
        if (!failed) {
            parent(node, i)->grad += upstream * slope;
        }
    }
    Py_DECREF(slopes);
    return failed;
}

/* So many nodes before a gradient is handed on, its node is asked for. */
#define AHEAD 8

/* propagate(output, accumulate): the backward pass. Where a rule does not listen to all of its inputs, as `where`,
   node.py knows which roads to follow. */
static PyObject *propagate(PyObject *module, PyObject *args)
{
    PyObject *argument;
    int accumulate, failed = 0, is_for_python = 0;
    double *before = NULL;
    Row order = {0};
    if (!PyArg_ParseTuple(args, "Op", &argument, &accumulate)) {
        return NULL;
    }
    Node *output = require_node(argument);
    if (output == NULL) {
        return NULL;
    }
    if ((is_for_python = walk(output, &order, !accumulate)) != 0) {
        goto done;
    }
    if (accumulate && (before = PyMem_New(double, order.n)) == NULL) {
        PyErr_NoMemory();
        failed = -1;
        goto done;
    }
    for (size_t i = 0; accumulate && i < order.n; i++) {
        before[i] = order.nodes[i]->grad;
        order.nodes[i]->grad = 0.0;
    }
    /* A value that is not a number has no slope: nan times any slope is nan, all the way back. */
    output->grad = output->data == output->data ? 1.0 : output->data;
    int is_finite = isfinite(output->data);
    for (size_t i = order.n; i > 0 && !failed; i--) {
        Node *node = order.nodes[i - 1];
        prefetch(order.nodes[i > AHEAD ? i - AHEAD : 0]);
        if (is_finite && isnan(node->grad)) { /* infinity met a zero, and node.py knows what is constant nearby */
            is_for_python = 1;
            break;
        }
        failed = hand_on(node);
    }
    for (size_t i = 0; accumulate && !failed && i < order.n; i++) {
        order.nodes[i]->grad = before[i] + (is_for_python ? 0.0 : order.nodes[i]->grad);
    }
done:
    PyMem_Free(before);
    PyMem_Free(order.nodes);
    if (is_for_python > 0) {
        return PyObject_CallFunction(in_python, "Oi", argument, accumulate);
    }
    return failed || is_for_python ? NULL : Py_NewRef(Py_None);
}

/* untracked(class): a class written in Python, made again as one that the collector is not told of. */
static PyObject *untracked(PyObject *module, PyObject *class)
{
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, untracked_dealloc},
        {Py_tp_alloc, take_node},
        {Py_tp_free, give_node},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "pellucid.autograd.value.Value",
        .basicsize = sizeof(Node),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    if (!PyType_Check(class) || ((PyTypeObject *)class)->tp_base != &NodeType ||
        ((PyTypeObject *)class)->tp_basicsize != sizeof(Node)) {
        PyErr_SetString(PyExc_TypeError, "a class of nodes without attributes of its own is wanted");
        return NULL;
    }
    PyObject *made = PyType_FromSpecWithBases(&spec, (PyObject *)&NodeType);
    PyObject *contents = PyObject_GetAttrString(class, "__dict__"), *items = NULL;
    if (made == NULL || contents == NULL || (items = PyMapping_Items(contents)) == NULL) {
        goto failed;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); i++) {
        PyObject *item = PyList_GET_ITEM(items, i);
        if (PyObject_SetAttr(made, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1)) < 0) {
            goto failed;
        }
    }
    Py_DECREF(contents);
    Py_DECREF(items);
    usual = (PyTypeObject *)made;
    return made;
failed:
    Py_XDECREF(made);
    Py_XDECREF(contents);
    Py_XDECREF(items);
    return NULL;
}

static PyObject *bind(PyObject *module, PyObject *args)
{
    PyObject *rules[5], *function;
    if (!PyArg_ParseTuple(args, "OOOOOO", &rules[0], &rules[1], &rules[2], &rules[3], &rules[4], &function)) {
        return NULL;
    }
    Py_XSETREF(INPUT, Py_NewRef(rules[0]));
    Py_XSETREF(CONSTANT, Py_NewRef(rules[1]));
    Py_XSETREF(ADD, Py_NewRef(rules[2]));
    Py_XSETREF(MULTIPLY, Py_NewRef(rules[3]));
    Py_XSETREF(SUM, Py_NewRef(rules[4]));
    Py_XSETREF(in_python, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "Give it the rows for inputs, constants, sums of two, products and sums of many, and the pass in Python."},
    {"untracked", untracked, METH_O, "The same class, of whose instances the collector is not told."},
    {"apply", (PyCFunction)(void (*)(void))apply, METH_FASTCALL, "The result of a rule as a new node of a type."},
    {"ancestors", ancestors, METH_O, "A node and everything it was made from, parents before children."},
    {"propagate", propagate, METH_VARARGS, "Give everything that a node was made from its gradient."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_node", "Numbers that remember, compiled.", -1, functions};

PyMODINIT_FUNC PyInit__node(void)
{
    names = PyDict_New();
    no_parents = PyTuple_New(0);
    no_name = PyUnicode_InternFromString("");
    forward_name = PyUnicode_InternFromString("forward");
    slopes_name = PyUnicode_InternFromString("slopes");
    listens_name = PyUnicode_InternFromString("listens");
    INPUT = Py_NewRef(Py_None); /* until bind() */
    CONSTANT = Py_NewRef(Py_None);
    ADD = Py_NewRef(Py_None);
    MULTIPLY = Py_NewRef(Py_None);
    SUM = Py_NewRef(Py_None);
    if (PyType_Ready(&NodeType) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddObjectRef(module, "Node", (PyObject *)&NodeType) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
